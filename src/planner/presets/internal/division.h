// What the axes of a preset divide, and the marks that say so.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/preset.h"
#include "ir/graph/graph.h"
#include "planner/presets/dim_classes.h"
#include "planner/presets/internal/gradients.h"
#include "planner/presets/internal/zero.h"
#include "sharding/propagation/mark.h"

namespace tessera {

/// A preset whose axes have sizes above 1.
struct Degrees {
  std::vector<std::string> names;
  Shape shape;
  int64_t stages = 1;
  std::string text;

  bool has(std::string_view axis) const;
  /// The axes that divide the rows of inputs.
  std::vector<std::string> data_axes() const;
  /// The axis over which levels of zero divide: kShardedDataAxis, without it kDataAxis; "": none.
  std::string zero_axis() const;
};

/// Marks on tensors, one for all of equal placements.
class TensorMarks {
 public:
  explicit TensorMarks(const Graph& graph) : graph_(graph) {}

  /// "" says nothing.
  void add(ValueId value, const std::string& placement);
  void add_life(ValueId value, ReplicaLifetime life);
  bool has(ValueId value) const;  // a placement
  std::vector<Mark> all(const std::string& origin) const;

 private:
  const Graph& graph_;
  std::map<ReplicaLifetime, std::vector<std::string>> lives_;
  std::vector<std::string> placements_;  // in the order of the first tensor
  std::map<std::string, std::vector<std::string>> names_;
};

/// What a preset divides beside what its axes divide.
struct FurtherDivision {
  int zero = 0;                    // Preset::zero
  bool divides_masters = false;    // Preset::master_weights
  bool divides_positions = false;  // Preset::sequence_parallel
};

/// The axes that divide each class of dims.
class Division {
 public:
  ///   throws  UserError (78) for an axis that would divide (almost) nothing
  Division(const Graph& graph, Degrees degrees);

  /// One mark for all tensors of equal placements.
  ///   gradients  of the parameters whose sums over micro-batches level 2 of zero divides
  std::vector<Mark> marks(const std::string& origin, const FurtherDivision& further,
                          const Gradients& gradients) const;

  bool is_parameter(ValueId value) const;

  /// Divides the state of the optimizer over the axis of zero, too, and so the sums of gradients
  /// over micro-batches from level 2 on, and the parameters at level 3. Master weights are
  /// parameters that the forward reads through casts to a smaller type alone.
  ///   gradients  those whose sums are divided
  ///   is_wanted  says of which parameters
  template <class IsWanted>
  void divide_state(const FurtherDivision& further, const Gradients& gradients, TensorMarks& marks,
                    const IsWanted& is_wanted) const {
    const std::map<std::string, std::vector<ValueId>> states = states_of_parameters();
    for (const Variable& variable : graph_.variables())
      if (variable.trainable && is_wanted(variable.value))
        divide_state_of(variable.value, further, gradients, states, marks);
  }

  /// Inputs, then parameters, then the first value of each class of space that no input has.
  std::vector<ValueId> marked() const;

  /// P("dp", None, "tp"); "" when nothing divides it.
  std::string placement_of(ValueId value) const;
  /// The same of a result, whose rows micro-batches divide first: P(("mb", "dp"), None, "tp").
  std::string placement_in_time(ValueId value) const;

 private:
  AxesOfDims axes_of(ValueId value) const;
  AxesOfDims divided_by_data(ValueId value) const;
  std::map<std::string, std::vector<ValueId>> states_of_parameters() const;
  void divide_state_of(ValueId parameter, const FurtherDivision& further,
                       const Gradients& gradients,
                       const std::map<std::string, std::vector<ValueId>>& states,
                       TensorMarks& marks) const;
  std::optional<int> position_dim(ValueId value) const;
  void divide_positions(TensorMarks& marks, const std::string& origin,
                        std::vector<Mark>& of_ops) const;
  bool is_gathered(ValueId input, DimClassIndex index) const;
  std::string placements_of_operands(OpId op) const;
  std::string placements_of_gradient(OpId op, OpId gradient, const TensorMarks& marks) const;
  std::string summed_over_micro_batches(const AxesOfDims& axes) const;
  void divide(const std::vector<DimClassIndex>& classes, const std::vector<std::string>& axes);
  std::vector<DimClassIndex> space() const;
  std::vector<DimClassIndex> tensor() const;

  const Graph& graph_;
  const Degrees degrees_;
  DimClasses dims_;
  std::vector<std::vector<std::string>> axes_;  // by class
  std::vector<bool> is_batch_, is_position_;    // by class
};

}  // namespace tessera
