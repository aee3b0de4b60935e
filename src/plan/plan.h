// A plan: the decisions of how to run a model on several processes, and nothing that follows from
// them. Small, JSON, diffable.
//
//     {
//       "format": 1,
//       "mesh": {"dp": 2, "tp": 2},
//       "device": "host",                          what its processes compute on, or "fake"; of
//       several meshes each says its own "micro_batches": 1,                        parts of a
//       step's batch, one after the other "schedule": "1f1b",                        one of
//       pipeline_schedules() (schedule/named_orders.h) "most_kept": 4, of schedule "auto":
//       micro-batches that a process keeps at most; without it as many
//                                                  as there are devices of the pipeline
//       "sums": "auto",                            over several axes: "direct", "scattered" or
//       "by-axis" (reshard/reshard.h) "split_matmuls": "off",                    products taken
//       apart with their exchanges (lower/passes/split_matmuls.h): "auto", or stripes: 2 to 8
//       "overlap_mib": 32,                         of exchanges under way ahead of their turn
//       (lower/passes/overlap.h); 0: each begins at its turn "marks": [{"tensor": "tokens",
//       "placement": "P(\"dp\")"}], "fingerprint": {"graph": "9a3f...", "version": "0.1.0",
//       "parameters": {"head.weight": "f32[128,256]"}}
//     }
//
// The stages of a pipeline are several meshes, and marks that say which ops run where:
//
//       "meshes": [{"name": "first", "mesh": {"dp": 2}, "processes": [0, 1]}, {"name": "last",
//       "mesh": {"dp": 2}, "processes": [2, 3]}], "marks": [{"op": "blocks.0.*", "mesh": "first"},
//       {"op": "blocks.1.*", "mesh": "last"}]
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/document.h"
#include "graph/graph.h"
#include "reshard/reshard.h"
#include "schedule/pipeline.h"
#include "shard/marks.h"
#include "shard/mesh_assignment.h"

namespace tessera {

/// The value of Plan::split_matmuls that lets prices decide.
inline constexpr int64_t kStripesThatPay = 0;
/// The largest value of Plan::split_matmuls.
inline constexpr int64_t kMostStripes = 8;
/// The default of Plan::overlap_mib.
inline constexpr Bytes kOverlapWindow{32 << 20};

/// What a plan was made for. A plan without one is written by hand and fits every model that has
/// the names of its marks.
struct PlanFingerprint {
  std::string graph;    // hash of the text form of the serial training graph
  std::string version;  // of the program that wrote it
  std::map<std::string, std::string> parameters;  // name to type

  bool operator==(const PlanFingerprint&) const = default;
};

struct Plan {
  std::string name = "serial";  // for people: "dp2-tp2", or the file it came from
  Meshes meshes;                // empty: one process
  int64_t micro_batches = 1;
  PipelineKind schedule = PipelineKind::kOneForwardOneBackward;
  int64_t most_kept = 0;  // of kAuto: PipelineOptions
  SumForm sums = SumForm::kAuto;
  int64_t split_matmuls = 1;  // stripes of products; kStripesThatPay: as many as pay
  int64_t overlap_mib = kOverlapWindow.value() >> 20;
  std::vector<Mark> marks;
  std::optional<PlanFingerprint> fingerprint;

  /// The meshes; one process is a mesh of the axis "all" of size 1.
  Meshes placed() const;
  /// All their processes, in ascending order.
  std::vector<Rank> processes() const;
  int ranks() const { return static_cast<int>(processes().size()); }
};

Plan serial_plan();

/// Reads a plan file.
/// throws  UserError: 66 missing file; 78 malformed, another format version, an unknown key with
/// the nearest legal one, an axis of size
///         below 1, processes that are not numbered 0, 1, 2, ... without a gap
Plan read_plan(const std::filesystem::path& file);
Plan parse_plan(const Document& document, const std::string& origin);

/// Stamped for `graph`, ready to be written.
Document to_document(const Plan& plan, const Graph& graph);

/// throws  UserError (78) with a diff of the parameters when the plan was stamped for another graph
void check_fits(const Plan& plan, const Graph& graph);

/// throws  UserError (78) when the plan wants other than `ranks` processes (with what to change)
void check_ranks(const Plan& plan, int ranks);

/// "dp=2 tp=2"; of several meshes "first: dp=2 {0,1}, last: dp=2 {2,3}"; "one process".
std::string mesh_text(const Plan& plan);

/// The version of this program.
std::string_view version();

}  // namespace tessera
