// A plan: the decisions about how to run a model on several ranks, and nothing that follows from
// them. It is small, JSON, and diffable.
//
// clang-format off
//     {
//       "format": 1,
//       "mesh": {"dp": 2, "tp": 2},   a size "rest" is what the number of ranks leaves
//       "device": "host",             what the ranks compute on, or "fake"
//       "hardware": "gpu",            what they need of a cluster: "cpu", "gpu", "npu", or a type
//       "micro_batches": 1,           parts of a step's batch, one after the other
//       "accumulate": 1,              parts of it, each of n micro-batches
//       "schedule": "1f1b",           one of pipeline_schedules()
//                                     (compiler/schedule/named_orders.h)
//       "max_in_flight": 4,           schedule "auto": the most micro-batches whose activations
//                                     a rank keeps; default: the number of ranks of the pipeline
//       "all_reduce": "auto",         algorithm over several axes: "one-shot", "hierarchical" or
//                                     "reduce-scatter-all-gather" (sharding/reshard/price.h)
//       "collective_matmul": "off",   decompose matmuls next to collectives: "auto", or 2 to 8
//                                     chunks
//       "prefetch_mib": 32,           limit of exchanges issued early, in flight at once; 0: none
//       "bucket_mib": 25,             gradients that are exchanged together in the backward
//       "halos": "auto",              "exchange" or "recompute" them, or the cheaper
//       "tasks": "role",              where tasks end: "role", "layer", "op", or patterns of ops
//       "recompute": "none",          of activations in the backward: "selective", "full", "auto"
//                                     or patterns of ops (compiler/rewrite/recompute.h)
//       "activation_mib": 512,        recompute "auto": what a rank keeps of activations at most
//       "offload": "none",            of optimizer state to a file: "state", or patterns of it
//       "offload_mib": 32,            offloaded state that is in memory at once
//       "disabled_passes": ["cse"],   optional passes of the compiler that do not run
//       "mapping": {"cluster": "2x8xa100-80g", "devices": ["n0/0", "n0/1"]},
//                                     the device of each rank, on one cluster
//       "cost": {"links": {"latency": "10 us"}},
//                                     a cost model (cluster/cost/cost_file.h); default: threads of
//                                     one machine
//       "marks": [{"tensor": "tokens", "placement": "P(\"dp\")"}],
//       "fingerprint": {"graph": "9a3f...", "version": "0.1.0",
//                       "rewritten": {"graph": "77c0...", "passes": ["fold", "cse"]},
//                       "parameters": {"head.weight": "f32[128,256]"}}
//     }
//
// The stages of a pipeline are several meshes, each with its ranks (and its device), and marks that
// say which ops run where:
//
//       "meshes": [{"name": "first", "mesh": {"dp": 2}, "ranks": [0, 1]},
//                  {"name": "last", "mesh": {"dp": 2}, "ranks": [2, 3]}],
//       "marks": [{"op": "blocks.0.*", "mesh": "first"}, {"op": "blocks.1.*", "mesh": "last"}]
//
// After the stages there may be views, other meshes of the ranks of a stage. What is marked to be
// on a view runs in the passes of the stage:
//
//       {"name": "experts", "mesh": {"ep": 2}, "view_of": "first"}
//
// Instead of marks, from which placements are propagated, a plan may have the placements:
//
//       "shardings": {"train": {"ops": {"m@dp": ["blocks.{0..23}.up.dot"]}, ...}, ...}
// clang-format on
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/document.h"
#include "cluster/cost/cost_model.h"
#include "compiler/plan/internal/fingerprint.h"
#include "compiler/plan/internal/rank_mapping.h"
#include "compiler/plan/offload.h"
#include "compiler/plan/task_granularity.h"
#include "compiler/rewrite/recompute.h"
#include "compiler/schedule/pipeline.h"
#include "ir/graph/graph.h"
#include "sharding/explicit/shardings.h"
#include "sharding/propagation/marks.h"
#include "sharding/propagation/mesh_assignment.h"
#include "sharding/reshard/price.h"

namespace tessera {

/// The value of Plan::collective_matmul with which costs decide.
inline constexpr int64_t kAutoChunks = 0;
/// The largest value of Plan::collective_matmul.
inline constexpr int64_t kMaxChunks = 8;
/// The default of Plan::prefetch_window.
inline constexpr Bytes kPrefetchWindow{32 << 20};
/// The default of Plan::offload_window.
inline constexpr Bytes kOffloadWindow{32 << 20};
/// The default of Plan::bucket, and of PyTorch's DistributedDataParallel, too.
inline constexpr Bytes kGradientBucket{25 << 20};

/// How an op gets the rows of an operand that its neighbours hold
/// (compiler/lower/internal/passes/halo_choice.h).
enum class HaloForm {
  kExchange,   // every halo
  kRecompute,  // every one that may be computed, as many layers back as that goes
  kAuto,       // the cheaper
};
std::string_view to_text(HaloForm form);  // "exchange", "recompute", "auto"

/// All decisions about a run; the compiler takes none of them itself.
struct Plan {
  std::string name = "serial";  // for readers: "dp2-tp2", or the name of its file
  Meshes meshes = {};           // empty: one rank
  int64_t micro_batches = 1;    // of a step, with `accumulate`; divides dim 0 of every input
  /// Parts of the step's batch, each of which has micro_batches / accumulate of them.
  int64_t accumulate = 1;
  /// Of several micro-batches; parse_plan refuses another than this one with one micro-batch.
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  /// Of kAuto: micro-batches that a rank keeps at most; 0: PipelineOptions decides.
  int64_t max_in_flight = 0;
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;
  int64_t collective_matmul = 1;  // chunks of a decomposed matmul; kAutoChunks: costs decide
  Bytes prefetch_window = kPrefetchWindow;  // of exchanges in flight before their turn; 0: none
  Bytes bucket = kGradientBucket;  // of gradients that are exchanged together in the backward
  HaloForm halos = HaloForm::kAuto;
  TaskGranularity tasks = {};  // which kernels share a task
  Recompute recompute = {};    // of activations in the backward
  Offload offload = {};        // of optimizer state
  /// Of offloaded state that is in the memory of a rank at once, or what one variable needs if that
  /// is more.
  Bytes offload_window = kOffloadWindow;
  /// Names of optional compiler passes that do not run (compiler/lower/lower.h).
  std::vector<std::string> disabled_passes = {};
  std::optional<RankMapping> mapping = {};  // empty: rank i on device i
  CostModel cost = {};  // the prices of all decisions that are left to the compiler
  std::vector<Mark> marks = {};
  /// The placements that the marks would give; there are no marks beside them.
  std::optional<Shardings> shardings = {};
  std::optional<PlanFingerprint> fingerprint = {};
  /// Did a search find it, without marks of the user? Then its placements are no news to the user.
  bool is_found = false;

  /// The meshes; when there are none, one mesh of the axis "all" of size 1.
  Meshes placed() const;
  /// The ranks of all meshes, in ascending order.
  std::vector<Rank> ranks() const;
  /// By rank: NamedMesh::hardware of its meshes, of which one may need a device. A rank on meshes
  /// that need different ones has that of the first.
  std::vector<std::string> hardware() const;
  int rank_count() const { return static_cast<int>(ranks().size()); }
};

Plan serial_plan();

/// Reads a plan file.
///
///   throws  UserError: 66 for a missing file; 78 for a malformed file, another format version, an
///           unknown key (with the most similar legal one), a key or value of a former version
///           (with its present name), a name of other systems (with ours), an axis of size below
///           1, an axis of the size kRest where no number of ranks is known or the other axes do
///           not divide it, or ranks that are not numbered 0, 1, 2, ... without a gap
Plan read_plan(const std::filesystem::path& file, std::optional<int> ranks = std::nullopt);

struct PlanReading {
  std::optional<int> ranks = std::nullopt;            // of the run, for kRest
  std::span<const std::string_view> other_keys = {};  // legal keys that the caller reads
  /// Receives every key that is asked for, without those of the table "cost".
  std::vector<ReadKey>* keys = nullptr;
};
Plan parse_plan(const Document& document, const std::string& origin,
                const PlanReading& reading = {});

/// The plan as a document to be written, stamped for `graph`, the serial graph before the passes
/// over it, and for what they made of it.
Document to_document(const Plan& plan, const Graph& graph,
                     const std::optional<RewrittenFingerprint>& rewritten = std::nullopt);

/// What to tell a user whose plan was stamped after other passes: one sentence. "" when the graph
/// is the same, or the plan says nothing about it. Such a plan is valid.
std::string describe_other_passes(const Plan& plan, const RewrittenFingerprint& present);

/// The serial plan and a fingerprint without a graph fit every model.
///   throws  UserError (78) with a diff of the parameters when the plan was stamped for another
///           graph, and when a pattern of `tasks` names no op of it
void check_fits(const Plan& plan, const Graph& graph);

///   throws  UserError (78) when the plan does not have `ranks` ranks (with the necessary change)
void check_ranks(const Plan& plan, int ranks);

/// The meshes as text: "dp=2 tp=2"; for several meshes "first: dp=2 {0,1}, last: dp=2 {2,3}"; for a
/// plan without meshes "one rank".
std::string mesh_text(const Plan& plan);

}  // namespace tessera
