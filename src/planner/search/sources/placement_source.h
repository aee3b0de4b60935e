// Candidates from the search for placements (planner/placement/placement_search.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/placement/placement_search.h"
#include "planner/placement/search_policy.h"
#include "planner/search/find_plan.h"
#include "planner/search/internal/sources/searched_placements.h"

namespace tessera {

/// Searches placements on the ranks of a request as one mesh, of one axis and of two; each with no,
/// half and all of the exchanges hidden that only the optimizer or a prefetch waits for. The
/// simulation of the candidates decides.
///
/// Where devices differ in speed there is a mesh more for each one: its parts have the weights of
/// the speeds.
///
/// It makes nothing where the memory is less than any placements need: the batch has to be divided
/// into micro-batches then.
///
/// Every further call takes the candidates of the last one that did not fit, and searches again
/// with a limit of memory that is lower by what was missing.
///
/// Constraints hold in every problem. Of fixed degrees `dp` divides dim 0 of every input as no
/// other axis does, `sp` another dim, and `tp` divides no input; of the ranks that are left one or
/// two axes are made, for those degrees that are not fixed. Of fixed marks the mesh is the only
/// one. It makes no stages and no micro-batches: where they are fixed, it makes nothing.
///
/// The plans have the shardings of the training step only.
///   requires  the request and the constraints of the first call outlive the last call
///   threads   one caller at a time
class PlacementSource {
 public:
  explicit PlacementSource(int64_t work = kSearchPolicy.work) : work_(work) {}

  std::vector<Candidate> operator()(const PlanRequest& request, const PlanConstraints& constraints,
                                    const PlanSearchResult& known);

 private:
  struct Tried {
    MeshPtr mesh;
    double overlap = 0;
    Bytes limit{0};
  };

  using Named = std::pair<std::string, Tried>;  // the name of the candidate

  /// Those of `wanted` for which there is one within the limit, each placement once; on all cores.
  std::vector<Candidate> search(const PlanRequest& request, const PlanConstraints& constraints,
                                const std::vector<Named>& wanted);
  std::optional<Candidate> search(const Plan& plan, const std::string& name,
                                  const Tried& tried) const;
  /// Adds searches on those meshes that have none so far; on all cores.
  void add_meshes(const PlanRequest& request, const PlanConstraints& constraints,
                  const std::vector<Named>& wanted);

  const int64_t work_;
  std::shared_ptr<const SearchedGraph> graph_;
  std::map<std::string, std::shared_ptr<const SearchedMesh>> meshes_;  // by the text of the mesh
  std::map<std::string, Tried> tried_;  // by the name of the candidate
  int round_ = 0;
};

}  // namespace tessera
