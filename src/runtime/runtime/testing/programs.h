// Support for the tests of this module: meshes, random tensors by name, a runtime with one program,
// and the local tensors that an observer saw.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "runtime/runtime/runtime.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera::testing_programs {

inline MeshPtr mesh_of(const std::string& text) {
  return std::make_shared<Mesh>(parse_mesh(text));
}

/// Random numbers in [-1, 1), whose sums depend on their order; small integers and bits for the
/// other types.
inline Tensor drawn(const std::string& name, const TensorType& type) {
  Tensor tensor(type);
  const RandomStream stream(random_key(7, name), 1);
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const float value = 2 * stream.uniform(static_cast<uint64_t>(i)) - 1;
    const auto at = static_cast<size_t>(i);
    if (type.dtype == DType::kF32) tensor.values<float>()[at] = value;
    if (type.dtype == DType::kI32) tensor.values<int32_t>()[at] = static_cast<int32_t>(value * 100);
    if (type.dtype == DType::kBool) tensor.values<uint8_t>()[at] = value > 0;
  }
  return tensor;
}

template <typename T>
std::vector<T> list(const Tensor& tensor) {
  const auto values = tensor.values<T>();
  return {values.begin(), values.end()};
}

inline std::vector<std::byte> bytes_of(const Tensor& tensor) {
  return {tensor.data(), tensor.data() + byte_size(tensor.type()).value()};
}

/// The elements of `box`, by plain loops.
inline Tensor part_of(const Tensor& whole, const Box& box) {
  Tensor part({whole.dtype(), box.shape()});
  const int64_t size = size_of(whole.dtype());
  const Dims strides = row_major_strides(whole.shape());
  for (int64_t i = 0; i < part.size(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = part.shape().size() - 1; d >= 0; --d) {
      at += (box.ranges[d].begin + rest % part.shape()[d]) * strides[d];
      rest /= part.shape()[d];
    }
    std::memcpy(part.data() + i * size, whole.data() + at * size, static_cast<size_t>(size));
  }
  return part;
}

/// Copies of the local tensors of one register, by rank.
class Seen {
 public:
  Seen(const TaskGraph& graph, RegisterIndex wanted) : graph_(graph), wanted_(wanted) {}
  Observer observer() {
    return
        [this](Rank rank, RegisterIndex reg, const Coordinate& coordinate, const std::byte* data) {
          if (reg != wanted_) return;
          Tensor copy(local_type(graph_.registers[reg], coordinate));
          std::memcpy(copy.data(), data, static_cast<size_t>(byte_size(copy.type()).value()));
          const std::lock_guard lock(mutex_);
          by_rank_[rank] = std::move(copy);
        };
  }
  const std::map<Rank, Tensor>& by_rank() const { return by_rank_; }

 private:
  const TaskGraph& graph_;
  RegisterIndex wanted_;
  std::mutex mutex_;
  std::map<Rank, Tensor> by_rank_;
};

/// An observer that acts when one rank has filled one register.
inline Observer at(Rank where, RegisterIndex what, std::function<void()> act) {
  return [where, what, act = std::move(act)](Rank rank, RegisterIndex reg, const Coordinate&,
                                             const std::byte*) {
    if (rank == where && reg == what) act();
  };
}
/// All of them, one after the other.
inline Observer all_of(std::vector<Observer> observers) {
  return [observers = std::move(observers)](Rank rank, RegisterIndex reg,
                                            const Coordinate& coordinate, const std::byte* data) {
    for (const Observer& each : observers) each(rank, reg, coordinate, data);
  };
}

/// A runtime that runs one program on random inputs, each determined by its name.
class Bench {
 public:
  explicit Bench(HandMade made, RuntimeOptions options = {})
      : graph_(std::make_shared<TaskGraph>(made.finish())),
        runtime_(graph_->meshes.front(), options) {
    program_ = &runtime_.load(graph_);
    for (const TaskInput& input : graph_->inputs) {
      tensors_[input.name] = drawn(input.name, graph_->registers[input.value].type);
      inputs_[input.name] = &tensors_[input.name];
    }
  }

  /// Variables that were not set begin with their initializers.
  void step(const Observer* observer = nullptr) {
    initialize_once();
    step_with_given_variables(observer);
  }
  void step_with_given_variables(const Observer* observer = nullptr) {
    runtime_.run(*program_, inputs_, results_[last_], observer);
  }

  // These are the two halves of step().
  void begin(const Observer* observer = nullptr) {
    initialize_once();
    begin_with_given_variables(observer);
  }
  void begin_with_given_variables(const Observer* observer = nullptr) {
    runtime_.begin_step(*program_, inputs_, results_[begun_++ % kMaxStepsInFlight], observer);
  }
  void end() {
    runtime_.end_step();
    last_ = ended_++ % kMaxStepsInFlight;
  }
  /// `count` steps that follow each other without a pause.
  void overlapping_steps(int count, const Observer* observer = nullptr) {
    begin(observer);
    for (int begun = 1; begun < count; ++begun) {
      begin(observer);
      end();
    }
    end();
  }

  Tensor& input(const std::string& name) { return tensors_.at(name); }
  const Tensor& input(const std::string& name) const { return tensors_.at(name); }
  const Tensor& result(const std::string& name) const { return results_[last_].at(name); }
  const TaskGraph& graph() const { return *graph_; }
  Runtime& runtime() { return runtime_; }
  LoadedProgram& program() { return *program_; }

 private:
  void initialize_once() {
    if (!is_initialized_) runtime_.initialize(*program_, 0);
    is_initialized_ = true;
  }

  std::shared_ptr<TaskGraph> graph_;
  Runtime runtime_;
  LoadedProgram* program_ = nullptr;
  bool is_initialized_ = false;
  TensorMap tensors_;
  std::map<std::string, const Tensor*> inputs_;
  std::array<TensorMap, kMaxStepsInFlight> results_;  // of the steps in flight, in turn
  size_t begun_ = 0, ended_ = 0, last_ = 0;
};

/// A register of type `type`, which may be partial. It is fed from an input of the same name, which
/// has one more leading dim for each partial axis, in their order. Nothing is computed, so no bit
/// changes.
inline RegisterIndex feed_anything(HandMade& made, const std::string& name,
                                   const std::string& type) {
  const DistType wanted = parse_dist_type(type, made.graph().meshes.front());
  DistType fed{{wanted.type.dtype, {}}, DistAttr::replicated(made.graph().meshes.front(), 0)};
  for (const PartialAxis& partial : wanted.attr.partial) {
    fed.type.shape.push_back(made.graph().meshes.front()->shape()[partial.axis]);
    fed.attr.dims.push_back({{partial.axis}, 1});
  }
  for (int64_t extent : wanted.type.shape) fed.type.shape.push_back(extent);
  fed.attr.dims.insert(fed.attr.dims.end(), wanted.attr.dims.begin(), wanted.attr.dims.end());
  const RegisterIndex input = made.input(name, to_text(fed.type, fed.attr));
  if (wanted.attr.partial.empty()) return input;
  return made.compute(name + ".partial", {"copy", {}, {}, ""}, {input}, type);
}

}  // namespace tessera::testing_programs
