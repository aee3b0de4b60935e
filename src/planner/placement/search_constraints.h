// What a search for placements has to keep of the decisions of the user.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "sharding/layout/dist_attr.h"
#include "sharding/propagation/mark.h"
#include "sharding/propagation/op_sharding.h"
#include "sharding/propagation/rules.h"

namespace tessera {

/// The placements that values may have, and those of ops that are decided.
struct SearchConstraints {
  /// By value: its canonical placement is one of these. Of a value that an op makes, all readers
  /// start from it.
  std::map<int, std::vector<DistAttr>> canonical_placements = {};
  /// By op: its factors.
  std::map<int, OpSharding> ops = {};
  /// By value: its copies live for a pass.
  std::map<int, bool> copies_by_pass = {};

  bool empty() const {
    return canonical_placements.empty() && ops.empty() && copies_by_pass.empty();
  }
  /// The value may only have canonical placements for which `keeps` holds.
  ///   canonical_placements  those that it has when nothing was said of it so far
  ///   throws  UserError (78) when there is none: `what` contradicts an earlier constraint
  void restrict(const Graph& graph, ValueId value,
                const std::vector<DistAttr>& canonical_placements, const std::string& what);
};

/// Marks as constraints: a mark on a value fixes its canonical placement, except for the dims that
/// the mark leaves open, which may get further axes; a mark on an op fixes its factors; a mark on
/// the next value of a variable is one on the variable.
///
///   requires  no mark names a mesh
///   throws    UserError (78) as resolve_marks, and for two marks that leave a variable no
///   canonical placement
SearchConstraints constraints_of_marks(const Graph& graph, const MeshPtr& mesh,
                                       const std::vector<Mark>& marks,
                                       const RuleLookup& rules = catalogue_rule);

/// Every placement of a value in plain parts: each axis divides one dim that has as many elements,
/// or none; several axes of a dim are in the order of the mesh.
std::vector<DistAttr> plain_placements(const TensorType& type, const MeshPtr& mesh);

/// The constraints of an op and its results and of a value, as text: equal ones may share a
/// decision. "" for none.
std::string text_of(const SearchConstraints& constraints, const Graph& graph, OpId op);
std::string text_of(const SearchConstraints& constraints, ValueId value);

}  // namespace tessera
