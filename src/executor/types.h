// What the runtime and the ranks that it drives share: options of a run, the tensors of the caller,
// parts of variables.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/reduction.h"
#include "base/split.h"
#include "base/tensor.h"
#include "base/units.h"
#include "device/device.h"
#include "tasks/task_graph.h"

namespace tessera {

class Network;

struct RuntimeOptions {
  /// A wait longer than this is a failure that names who waits for whom.
  Seconds deadline{120};
  /// To the other members; null: all ranks are threads of this program.
  std::shared_ptr<Network> network = nullptr;
  FakeDeviceOptions fake_device = {};  // of ranks on meshes of fake devices
  Reduction reduction = Reduction::kOrdered;
};

/// Sees every register right after it was filled, on the thread of its rank; for verification.
/// `data` is the local tensor.
using Observer = std::function<void(Rank rank, RegisterIndex reg, const Coordinate& coordinate,
                                    const std::byte* data)>;

/// Steps that may be under way at once: one that ranks are at the end of, one that others have
/// begun.
inline constexpr int kStepsUnderWay = 2;

/// What a step takes and gives: whole tensors by name.
using TensorMap = std::map<std::string, Tensor>;

/// What one rank holds of a variable: its box, dense and row-major at `data`.
struct VariablePart {
  std::string name;
  TensorType whole;
  Box box;  // may be empty
  bool first_holder =
      false;  // of the ranks that hold this box: those that do together hold each element once
  std::byte* data = nullptr;
};

}  // namespace tessera
