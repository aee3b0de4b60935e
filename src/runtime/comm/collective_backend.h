// Collectives of groups of processes, which a communication library executes. A backend is a
// folder: runtime/mpi executes them on host memory. A GPU library such as NCCL would be a folder
// beside it with one class that implements CollectiveBackend:
//
//   split  makes a communicator of the processes and returns its number (ncclCommSplit)
//   start  enqueues the collective on `on.stream`, after the work that is already there; lowers
//          `in_flight` when the stream has reached its end. Source and target are addresses of the
//          device of the stream.
//
// Small messages, and pieces that are not part of a collective, are sent by the Transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "base/tensor/tensor.h"

namespace tessera {

class DeviceStream;

/// The number of operations that are still in flight. The owner sets it, and a transport or a
/// backend counts it down. At 0 the owner may use the memory.
using Countdown = std::atomic<int>;

/// A collective of a group, with the names of MPI. Every process gives and receives a dense part.
struct Collective {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather };
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kF32;
  std::vector<int> processes = {};  // ascending
  /// The number of elements: one number for an all-reduce, otherwise one for the part of each
  /// process.
  std::vector<int> counts = {};
  /// The begin of the part of each process in the whole; empty for an all-reduce.
  std::vector<int> begins = {};
};

/// The group that runs a collective, and the stream that orders it.
struct GroupStream {
  int group = 0;                   // the number that split() returned
  DeviceStream* stream = nullptr;  // nullptr: host memory, and the collective starts at once
};

class CollectiveBackend {
 public:
  virtual ~CollectiveBackend() = default;

  /// Makes a group of processes.
  ///   requires  every process of the group calls it, and processes that share two groups call it
  ///             for these in the same order
  ///   waits     for the other processes of the group
  ///   returns   the number of the group in this process
  virtual int split(std::span<const int> processes) = 0;

  /// Starts a collective and never waits. Sums are added in any order.
  ///   requires  the processes of a group start its collectives in one order; `what`, `source` and
  ///             `target` stay until `in_flight` was lowered
  virtual void start(const Collective& what, GroupStream on, const std::byte* source,
                     std::byte* target, Countdown& in_flight) = 0;
};

}  // namespace tessera
