// Types that the runtime shares with the ranks that it drives: options of a run, tensors of the
// caller, parts of variables.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/tensor/reduction.h"
#include "base/tensor/split.h"
#include "base/tensor/tensor.h"
#include "base/units.h"
#include "runtime/device/device.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {

class ProcessNetwork;

/// Thrown by waits when the run stops, and caught where the step began.
struct RunStopped {};

/// Makes the acts of ranks longer than they are on this machine, so that threads take the time of
/// slower devices and links (tests/throttled_ranks.h). For acts on hosts; of a While or an If, also
/// for the acts inside, with the graph of their region.
///
///   threads  that of the rank
class ActDelay {
 public:
  virtual ~ActDelay() = default;
  /// The inputs of the act are there, and its work begins.
  virtual void begin(Rank rank, const TaskGraph& graph, TaskId task) = 0;
  /// Its work is done. Others see its results when the call returns.
  virtual void end(Rank rank, const TaskGraph& graph, TaskId task) = 0;
};

struct RuntimeOptions {
  /// A wait longer than this is a failure. Its message says which rank waits for which.
  Seconds deadline{120};
  /// The connection to the other processes; null: this process runs all ranks as threads.
  std::shared_ptr<ProcessNetwork> network = nullptr;
  FakeDeviceOptions fake_device = {};  // for ranks on meshes of fake devices
  FileDeviceOptions file_device = {};  // of variables that a plan offloads
  std::shared_ptr<ActDelay> delay = nullptr;
  Reduction reduction = Reduction::kOrdered;
};

/// A function that is called for every register right after it was filled, on the thread of its
/// rank; for verification. `data` is the local tensor, in host memory.
using Observer = std::function<void(Rank rank, RegisterIndex reg, const Coordinate& coordinate,
                                    const std::byte* data)>;

/// Steps that may be in flight at once: while some ranks finish one, others begin the next.
inline constexpr int kMaxStepsInFlight = 2;

/// Exchanges that one rank prefetches at a time, each with its own staging memory.
inline constexpr int kMaxPrefetchesInFlight = 4;

/// The inputs or the results of a step: whole tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// What the thread of a rank did in a step. The rest of the step it waited for others.
struct RankTime {
  Seconds kernels{0};  // with what the thread does between two of them
  Seconds exposed{0};  // in exchanges, while no kernel ran
};

/// The arguments of one step, in the order of the graph's inputs and results. For a program they
/// are whole tensors, for a region the parts of the rank.
struct StepCall {
  std::span<const std::byte* const> inputs;
  std::span<std::byte* const> results;
  const Observer* observer = nullptr;
  /// By rank index: each rank writes its own at the end of the step. Empty: nothing is measured.
  std::span<RankTime> times = {};
};

/// The part of a variable that one rank holds, or of several boxes one: dense and row-major at
/// `data`.
struct VariablePart {
  std::string name;
  TensorType whole;
  Box box;  // may be empty
  /// Is this rank the first of those that hold this box? The boxes of all first holders contain
  /// each element once.
  bool first_holder = false;
  std::byte* data = nullptr;
};

}  // namespace tessera
