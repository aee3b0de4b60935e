// One case: a serial program, its data, a mesh and marks. It is made from a seed, runs over
// threads, and is compared with the reference interpreter. This module joins the compiler, the
// runtime and the interpreter. It knows no model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/lower/lower.h"
#include "ir/graph/graph.h"
#include "sharding/propagation/marks.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/propagation/propagate.h"

namespace tessera::fuzz {

/// The range from which the elements of an input or a variable are sampled: whole numbers
/// low..high, or f32 in [low, high). A bool is true or false with equal probability.
struct Fill {
  bool whole = false;
  double low = -1;
  double high = 1;

  bool operator==(const Fill&) const = default;
};

struct FuzzCase {
  uint64_t seed = 0;
  bool exact = false;         // is the case in the exact subset, and compared without tolerance?
  int64_t micro_batches = 1;  // of a step
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  int64_t chunks = 1;  // chunks of decomposed matmuls
  /// By mesh axis the sizes of its levels (LinkCosts::levels), the outermost, and slowest, first.
  std::map<std::string, std::vector<int64_t>> levels = {};
  std::vector<std::string> passes = {};  // those over the serial graph that run, by name
  int64_t steps = 2;                     // the second step reads what the first one wrote in place
  Meshes meshes;                         // one called "all", or one for each stage
  std::vector<Mark> marks;
  std::map<std::string, Fill> fills;  // by input or variable; a fill replaces the initializer
  Graph graph;
};

/// A mesh of the ranks first, first + 1, ...
MeshPtr consecutive_mesh(const Mesh& shape, Rank first);

/// The case of a seed; the same seed always gives the same case.
FuzzCase random_case(uint64_t seed);

/// The text form: seed, mode, mesh, fills and marks with one line each, then the graph. A failure
/// prints it, and a regression test parses it.
///
///     seed 17
///     mode exact
///     steps 2
///     micro_batches 2                    when there are several
///     schedule zb-h1                     when it is not 1f1b
///     chunks 2                           of decomposed matmuls, when there are several
///     levels x=2:2                       of a mesh axis, when it has some
///     passes fold cse                    over the serial graph, when there are some
///     mesh first x=2 y=3 at 0            ranks 0 to 5
///     mesh last x=2 at 6                 ranks 6 and 7
///     fill x whole -3.0 3.0
///     stage op y last
///     mark tensor x P("x")
///     copies x                           live for a pass; "copies x step": for a step
///     graph
///     input x: f32[5]
///     y = neg(x): f32[5]
std::string to_text(const FuzzCase& given);
/// throws  UserError (65) that names the line
FuzzCase parse_case(std::string_view text);
/// Checks a case that was read: its counts, meshes, fills and types.
///   throws  UserError: 65 where it is none that a failure prints, such as for types that do not
///           follow from the operands; 4 when it is too large
void check_case(const FuzzCase& given);

/// The tensor of an input in a step, or the first value of a filled variable. It is sampled by the
/// seed of the case and the name, so that it does not change when other parts of the case are
/// removed.
Tensor sampled(const FuzzCase& given, const std::string& name, const TensorType& type,
               int64_t step);

/// The first difference or error of a case.
struct CaseFailure {
  enum class Stage { kCompile, kRun, kCompare };
  Stage stage = Stage::kCompare;
  std::string text;   // of a comparison: op, placement, element, both values and the tolerance
  std::string value;  // of a comparison: the value that differs
  bool out_of_memory = false;  // it ran out of memory, which says nothing about the case
};

/// Planted faults, for tests that show that they are found.
struct CaseFaults {
  RuleLookup rules = catalogue_rule;
  HaloForm halos = HaloForm::kAuto;  // not a fault: each form must be right
  bool check_placements = true;      // false: only the run can find the fault
  std::function<void(TaskGraph&)> tamper = {};
  /// A wrong pass over the serial graph: it makes the graph that is compiled, while the reference
  /// runs the graph of the case.
  std::function<Graph(const Graph&)> rewrite = {};
  /// Not a fault: the plan of a case instead of its meshes, marks and passes; nullopt: the serial
  /// plan.
  std::function<std::optional<Plan>(const FuzzCase& given, const Graph& graph)> planner = {};
  /// Called when the case is refused because of its micro-batches.
  std::function<void()> on_refusal = {};
  std::function<void()> on_scheduled = {};  // called when it runs under a schedule other than 1f1b
  std::function<void()> on_chunks = {};     // called when it runs with a decomposed matmul
  std::function<void()> on_combined = {};   // called when it runs with combined exchanges
};

/// Compiles the case, runs its steps over threads and compares with the plain reference: every
/// register (assembled; partial values reduced), all replicas bit for bit, results, and variables
/// after each step.
///   returns   the first difference in program order; nullopt when all agree
///   throws    nothing: an exception of any phase is a failure of the case
///   refusals  a schedule that does not fit the stages is refused with a UserError, and the case
///             then runs under 1f1b. A program that cannot run in micro-batches, or not under these
///             marks, is refused too, and then runs in one
std::optional<CaseFailure> run_case(const FuzzCase& given, const CaseFaults& faults = {});

/// Does every partial sum that any placement may form stay exact in f32? The answer follows from
/// the magnitudes of the data of the case: each sum, and each sum of absolute partial values that a
/// linear op may pass on, is a whole number below 2^24.
bool in_exact_subset(const FuzzCase& given);

/// Is every element of every step of the plain reference finite and below 1e6?
bool is_bounded(const FuzzCase& given);

}  // namespace tessera::fuzz
