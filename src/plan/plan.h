// A plan: the decisions about how to run a model on several ranks, and nothing that follows from
// them. It is small, JSON, and diffable.
//
// clang-format off
//     {
//       "format": 1,
//       "mesh": {"dp": 2, "tp": 2},
//       "device": "host",             what the ranks compute on, or "fake"
//       "micro_batches": 1,           parts of a step's batch, one after the other
//       "schedule": "1f1b",           one of pipeline_schedules() (schedule/named_orders.h)
//       "max_in_flight": 4,           schedule "auto": the most micro-batches whose activations
//                                     a rank keeps; default: the number of ranks of the pipeline
//       "all_reduce": "auto",         algorithm over several axes: "one-shot", "hierarchical" or
//                                     "reduce-scatter-all-gather" (reshard/price.h)
//       "collective_matmul": "off",   decompose matmuls next to collectives: "auto", or 2 to 8
//                                     chunks
//       "prefetch_mib": 32,           limit of exchanges issued early, in flight at once; 0: none
//       "tasks": "role",              where tasks end: "role", "layer", "op", or patterns of ops
//       "marks": [{"tensor": "tokens", "placement": "P(\"dp\")"}],
//       "fingerprint": {"graph": "9a3f...", "version": "0.1.0",
//                       "parameters": {"head.weight": "f32[128,256]"}}
//     }
//
// The stages of a pipeline are several meshes, each with its ranks (and its device), and marks that
// say which ops run where:
//
//       "meshes": [{"name": "first", "mesh": {"dp": 2}, "ranks": [0, 1]},
//                  {"name": "last", "mesh": {"dp": 2}, "ranks": [2, 3]}],
//       "marks": [{"op": "blocks.0.*", "mesh": "first"}, {"op": "blocks.1.*", "mesh": "last"}]
// clang-format on
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "graph/graph.h"
#include "plan/task_granularity.h"
#include "reshard/price.h"
#include "schedule/pipeline.h"
#include "shard/marks.h"
#include "shard/mesh_assignment.h"

namespace tessera {

/// The value of Plan::collective_matmul with which costs decide.
inline constexpr int64_t kAutoChunks = 0;
/// The largest value of Plan::collective_matmul.
inline constexpr int64_t kMaxChunks = 8;
/// The default of Plan::prefetch_mib.
inline constexpr Bytes kPrefetchWindow{32 << 20};

/// Identifies the model of a plan. A plan without it is written by hand and fits every model that
/// has the names of its marks.
struct PlanFingerprint {
  std::string graph;    // hash of the text form of the serial training graph
  std::string version;  // of the program that wrote it
  std::map<std::string, std::string> parameters;  // name to type

  bool operator==(const PlanFingerprint&) const = default;
};

struct Plan {
  std::string name = "serial";  // for readers: "dp2-tp2", or the name of its file
  Meshes meshes;                // empty: one rank
  int64_t micro_batches = 1;
  /// Of several micro-batches; parse_plan refuses another than this one with one micro-batch.
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  int64_t max_in_flight = 0;  // for kAuto: PipelineOptions
  AllReduceAlgorithm all_reduce = AllReduceAlgorithm::kAuto;
  int64_t collective_matmul = 1;  // chunks of a decomposed matmul; kAutoChunks: costs decide
  int64_t prefetch_mib = kPrefetchWindow.value() >> 20;
  TaskGranularity tasks;  // which kernels share a task
  std::vector<Mark> marks;
  std::optional<PlanFingerprint> fingerprint;

  /// The meshes; when there are none, one mesh of the axis "all" of size 1.
  Meshes placed() const;
  /// The ranks of all meshes, in ascending order.
  std::vector<Rank> ranks() const;
  int rank_count() const { return static_cast<int>(ranks().size()); }
};

Plan serial_plan();

/// Reads a plan file.
///
///   throws  UserError: 66 for a missing file; 78 for a malformed file, another format version, an
///           unknown key (with the most similar legal one), a key or value of a former version
///           (with its present name), an axis of size below 1, or ranks that are not numbered 0, 1,
///           2, ... without a gap
Plan read_plan(const std::filesystem::path& file);
Plan parse_plan(const Document& document, const std::string& origin);

/// The plan as a document to be written, stamped for `graph`.
Document to_document(const Plan& plan, const Graph& graph);

///   throws  UserError (78) with a diff of the parameters when the plan was stamped for another
///           graph, and when a pattern of `tasks` names no op of it
void check_fits(const Plan& plan, const Graph& graph);

///   throws  UserError (78) when the plan does not have `ranks` ranks (with the necessary change)
void check_ranks(const Plan& plan, int ranks);

/// The meshes as text: "dp=2 tp=2"; for several meshes "first: dp=2 {0,1}, last: dp=2 {2,3}"; for a
/// plan without meshes "one rank".
std::string mesh_text(const Plan& plan);

/// The version of this program.
std::string_view version();

}  // namespace tessera
