// The programs of a training step in three parts (training/engine/internal/steps/step_parts.h):
// gradients are accumulated, reduced once over the ranks, and applied.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "training/engine/internal/programs/program_set.h"

namespace tessera {

/// The constructor compiles and loads the three programs.
///
///   memory   three times the gradients, in addition to the training program: accumulated, reduced,
///            and the joined buffer of the exchange
///   threads  call from one thread
class AccumulationPrograms {
 public:
  /// Is called with each program as it was compiled: kAccumulate, kReduceGradients,
  /// kApplyGradients.
  using OnCompiled =
      std::function<void(Purpose part, const Graph& graph, const Compiled& compiled)>;

  /// `programs` outlives it; its main program is training.
  explicit AccumulationPrograms(ProgramSet& programs, const OnCompiled& on_compiled = {});
  AccumulationPrograms(const AccumulationPrograms&) = delete;  // apply_inputs_ points into it
  AccumulationPrograms& operator=(const AccumulationPrograms&) = delete;

  /// Returns the mean loss of the batch and adds its gradients to <parameter>.accumulated.
  ///   inputs  those of the training program without the learning rate; "step" only seeds dropout
  double accumulate(const std::map<std::string, const Tensor*>& inputs);
  /// Sets <parameter>.accumulated and <parameter>.reduced to zero.
  void drop();
  /// Adds the sums over the ranks of <parameter>.accumulated to <parameter>.reduced, and sets the
  /// former to zero.
  void reduce();
  /// Updates the parameters by <parameter>.reduced times `scale`, and sets it to zero.
  ///   returns  the norm of the gradients; 0 without clipping
  double apply(double scale, double learning_rate, int64_t step);

 private:
  Runtime& runtime_;
  const std::string loss_;  // the name of the output
  std::vector<std::pair<std::string, TensorType>> parameters_;
  LoadedProgram* accumulate_ = nullptr;
  LoadedProgram* reduce_ = nullptr;
  LoadedProgram* apply_ = nullptr;
  TensorMap accumulate_results_, reduce_results_, apply_results_;
  Tensor scale_ = Tensor::scalar(0.0f);
  Tensor rate_ = Tensor::scalar(0.0f);
  Tensor step_ = Tensor::scalar(int32_t{0});
  const std::map<std::string, const Tensor*> apply_inputs_;
};

}  // namespace tessera
