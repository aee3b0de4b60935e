#include "training/engine/internal/steps/step_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/text.h"
#include "ir/autodiff/gradient.h"
#include "ir/autodiff/optimizer.h"
#include "ir/models/graphs.h"
#include "ir/ops/builder.h"
#include "sharding/propagation/micro_batches.h"
#include "training/engine/internal/programs/shared_variables.h"

namespace tessera {

std::string accumulated_name(const std::string& parameter) {
  return parameter + ".accumulated";
}
std::string reduced_name(const std::string& parameter) {
  return parameter + ".reduced";
}

namespace {

/// The placement as text for marks.
std::string placement_text(const DistAttr& attr) {
  return "(" + to_text(attr) + ")";
}

Mark on_mesh(Mark mark, const std::string& mesh) {
  mark.mesh = mesh;
  return mark;
}

/// A program under construction: the graph, and the marks that place it.
struct Draft {
  Graph graph;
  std::vector<Mark> marks;

  ValueId add_state(const std::string& name, const TensorType& type) {
    return graph.add_variable(name, type, Initializer::constant(0), false);
  }
  /// The variable `<parameter>.accumulated`, placed as the gradient is produced.
  ValueId add_accumulated(const MadeGradient& gradient) {
    const ValueId value = add_state(accumulated_name(gradient.parameter), gradient.type);
    marks.push_back(on_mesh(shard_tensor(accumulated_name(gradient.parameter),
                                         placement_text(gradient.attr), "gradient accumulation"),
                            gradient.mesh));
    return value;
  }
  /// The variable `<parameter>.reduced`, placed as the parameter is.
  ValueId add_reduced(const MadeGradient& gradient, const PlacedGraph& training) {
    marks.push_back(keep_at(reduced_name(gradient.parameter),
                            training.sharded.at(*training.graph.find_value(gradient.parameter)),
                            gradient.owner_mesh));
    return add_state(reduced_name(gradient.parameter), gradient.type);
  }
};

// ---- accumulate ----

/// A graph of only forward and backward.
struct Backward {
  Graph graph;
  std::vector<ValueId> parameters;
  std::vector<ValueId> gradients;
};

Backward backward_of(const Network& network, const TrainingSettings& settings) {
  const TrainConfig& train = settings.train;
  Backward backward{
      forward_graph(network, ForwardPurpose::kTraining, train.batch, train.seed, train.precision),
      {},
      {}};
  const auto outputs = backward.graph.outputs();
  for (const auto& [name, value] : outputs)
    if (name != network.loss && name != network.count) backward.graph.remove_output(name);
  backward.parameters = trained_parameters(backward.graph, settings.optimizer, network.trained);
  Builder builder(backward.graph, train.seed);
  backward.gradients =
      differentiate(builder, backward.graph.output(network.loss), backward.parameters);
  if (train.precision.dtype != DType::kF32) {
    TypedGradients wide = with_gradients_in(backward.graph, train.precision.gradients);
    const auto follow = [&](ValueId& value) {
      value = wide.value[static_cast<size_t>(value.index)];
    };
    std::ranges::for_each(backward.parameters, follow);
    std::ranges::for_each(backward.gradients, follow);
    backward.graph = std::move(wide.graph);
  }
  return backward;
}

/// The mesh that produces each gradient in the training program, and its placement: Partial when
/// the op that produces it leaves partial values.
std::vector<MadeGradient> made_gradients(const Backward& backward, const Plan& plan,
                                         const PlacedGraph& placed) {
  const Graph& training = placed.graph;
  const ShardedGraph& sharded = placed.sharded;
  // These are meshes of ranks; those of `sharded` begin with the axis of time when there are
  // micro-batches.
  const Meshes meshes = plan.placed();
  std::vector<MadeGradient> made;
  for (size_t i = 0; i < backward.gradients.size(); ++i) {
    const std::string& name = backward.graph.value(backward.gradients[i]).name;
    const std::string& parameter = backward.graph.value(backward.parameters[i]).name;
    const ValueId gradient = *find_value(placed, name);
    const OpId producer = training.value(gradient).producer;
    const auto& outputs = training.op(producer).outputs;
    const int output = static_cast<int>(std::ranges::find(outputs, gradient) - outputs.begin());
    DistAttr attr = output_attr(view(training, training.op(producer)),
                                sharded.rules[producer.index], sharded.at(producer), output);
    const NamedMesh& mesh = meshes[sharded.stages.ops[producer.index]];
    if (plan.micro_batches > 1) attr = micro_batch_placement(attr, mesh.mesh).attr;
    const ParameterGradient update =
        parameter_gradient(backward.graph, backward.parameters[i], backward.gradients[i]);
    made.push_back({parameter, name, training.type(gradient), std::move(attr), mesh.name,
                    owner_mesh(sharded, *training.find_value(parameter)), update.is_decayed,
                    update.input_dims});
  }
  return made;
}

Draft accumulation_draft(Backward backward, std::vector<Mark> marks,
                         const std::vector<MadeGradient>& gradients, uint64_t seed) {
  Draft draft{std::move(backward.graph), std::move(marks)};
  for (size_t i = 0; i < gradients.size(); ++i) {
    const MadeGradient& gradient = gradients[i];
    const ValueId accumulated = draft.add_accumulated(gradient);
    Builder builder(draft.graph, seed);
    // It runs on the mesh that produces the gradient.
    builder.derive(
        Role::kOptimizer,
        {draft.graph.op(draft.graph.value(backward.gradients[i]).producer).name, "accumulation"});
    const std::string name = accumulated_name(gradient.parameter) + ".next";
    draft.graph.set_next(accumulated, builder.add(accumulated, backward.gradients[i], name));
    const std::string placement = placement_text(gradient.attr);
    draft.marks.push_back(
        shard_op(name, "[" + placement + ", " + placement + "]", "gradient accumulation"));
  }
  return draft;
}

// ---- reduce ----

bool may_be_fused(const MadeGradient& gradient) {
  return !gradient.attr.partial.empty() &&
         std::all_of(gradient.attr.dims.begin(), gradient.attr.dims.end(),
                     [](const DimSharding& dim) { return dim.axes.empty(); });
}

/// Writes the reduction. Gradients that can be fused are joined, summed over the ranks as one
/// tensor, and split again.
class ReductionWriter {
 public:
  explicit ReductionWriter(const PlacedGraph& training) : training_(training) {}

  Draft write(const std::vector<MadeGradient>& gradients) {
    std::map<std::string, ValueId> summed;
    for (const MadeGradient& gradient : gradients)
      accumulated_[gradient.parameter] = summed[gradient.parameter] =
          draft_.add_accumulated(gradient);
    const auto groups = fusible(gradients);
    for (size_t i = 0; i < groups.size(); ++i)
      join(groups[i], "fused." + std::to_string(i), summed);
    for (const MadeGradient& gradient : gradients) finish(gradient, summed.at(gradient.parameter));
    return std::move(draft_);
  }

 private:
  /// Places a value, under its scoped name, on a mesh; with the placements of its inputs when they
  /// are given.
  void place(ValueId made, const std::string& mesh, const std::string& placements = "") {
    draft_.marks.push_back(
        on_mesh(shard_op(draft_.graph.value(made).name, placements, "gradient exchange"), mesh));
  }

  void join(const std::vector<MadeGradient>& group, const std::string& name,
            std::map<std::string, ValueId>& summed) {
    const std::string& mesh = group.front().mesh;
    Builder builder(draft_.graph);
    const auto scope = builder.scope(name);
    std::vector<ValueId> flat;
    for (const MadeGradient& gradient : group) {
      flat.push_back(builder.reshape(accumulated_.at(gradient.parameter),
                                     {element_count(gradient.type.shape)},
                                     gradient.parameter + ".flat"));
      place(flat.back(), mesh, "[" + placement_text(gradient.attr) + "]");
    }
    const DistAttr partial{group.front().attr.mesh, {DimSharding{}}, group.front().attr.partial};
    const ValueId joined = builder.concat(flat, 0, "joined");
    place(joined, mesh,
          "[" +
              tessera::join(std::vector<std::string>(flat.size(), placement_text(partial)), ", ") +
              "]");
    int64_t begin = 0;
    for (const MadeGradient& gradient : group) {
      const int64_t end = begin + element_count(gradient.type.shape);
      const ValueId part = builder.slice(joined, {begin}, {end}, {1}, gradient.parameter + ".part");
      place(part, mesh);
      summed[gradient.parameter] =
          builder.reshape(part, gradient.type.shape, gradient.parameter + ".sum");
      place(summed[gradient.parameter], mesh);
      begin = end;
    }
  }

  void finish(const MadeGradient& gradient, ValueId sum) {
    const ValueId reduced = draft_.add_reduced(gradient, training_);
    Builder builder(draft_.graph);
    const ValueId next = builder.add(reduced, sum, reduced_name(gradient.parameter) + ".next");
    place(next, gradient.owner_mesh);
    draft_.graph.set_next(reduced, next);
    const ValueId zero =
        builder.constant(gradient.type, 0, accumulated_name(gradient.parameter) + ".next");
    place(zero, gradient.mesh);
    draft_.graph.set_next(accumulated_.at(gradient.parameter), zero);
  }

  const PlacedGraph& training_;
  Draft draft_;
  std::map<std::string, ValueId> accumulated_;
};

// ---- apply ----

Draft apply_draft(const Network& network, const TrainingSettings& settings,
                  const std::vector<MadeGradient>& gradients, const PlacedGraph& placed) {
  const Graph& training = placed.graph;
  Draft draft;
  const ValueId scale = draft.graph.add_input(std::string(kGradientScaleInput), {DType::kF32, {}});
  Builder builder(draft.graph, settings.train.seed);
  std::vector<ParameterGradient> updates;
  std::vector<ValueId> reduced;
  for (const MadeGradient& gradient : gradients) {
    const Variable& variable = *training.variable_of(*training.find_value(gradient.parameter));
    const ValueId parameter =
        draft.graph.add_variable(gradient.parameter, gradient.type, variable.initializer);
    reduced.push_back(draft.add_reduced(gradient, placed));
    builder.derive(Role::kOptimizer, {gradient.parameter, "accumulation"});
    const ValueId scales =
        builder.broadcast(scale, gradient.type.shape, {}, gradient.parameter + ".scale");
    updates.push_back({parameter,
                       builder.mul(reduced.back(), scales, gradient.parameter + ".mean_gradient"),
                       gradient.is_decayed, gradient.input_dims});
  }
  add_updates(builder, updates, with_measured_norm(settings.optimizer), network.groups);
  for (size_t i = 0; i < gradients.size(); ++i) {
    builder.derive(Role::kOptimizer, {gradients[i].parameter, "accumulation"});
    draft.graph.set_next(
        reduced[i],
        builder.constant(gradients[i].type, 0, reduced_name(gradients[i].parameter) + ".next"));
  }
  const std::vector<Mark> kept = with_variables_of(placed, draft.graph, {});
  draft.marks.insert(draft.marks.end(), kept.begin(), kept.end());
  return draft;
}

}  // namespace

std::vector<std::vector<MadeGradient>> fusible(const std::vector<MadeGradient>& gradients) {
  std::vector<std::vector<MadeGradient>> groups;
  for (const MadeGradient& gradient : gradients) {
    if (!may_be_fused(gradient)) continue;
    const auto group =
        std::find_if(groups.begin(), groups.end(), [&](const std::vector<MadeGradient>& members) {
          return members.front().mesh == gradient.mesh &&
                 members.front().type.dtype == gradient.type.dtype &&
                 members.front().attr.partial == gradient.attr.partial;
        });
    if (group == groups.end())
      groups.push_back({gradient});
    else
      group->push_back(gradient);
  }
  return groups;
}

StepParts step_parts(const Network& network, const TrainingSettings& settings, const Plan& plan,
                     const PlacedGraph& training) {
  if (settings.train.precision.scales_loss()) return {};
  Backward backward = backward_of(network, settings);
  const std::vector<Mark> marks = with_stages_of(
      training, backward.graph,
      with_variables_of(training, backward.graph, marks_for(backward.graph, plan.marks)));
  StepParts made{made_gradients(backward, plan, training), {}};
  const auto add = [&](Purpose purpose, Draft draft, int64_t micro_batches) {
    Plan of_part = plan;
    of_part.marks = std::move(draft.marks);
    of_part.micro_batches = micro_batches;
    made.parts.push_back({purpose, std::move(draft.graph), std::move(of_part)});
  };
  add(Purpose::kAccumulate,
      accumulation_draft(std::move(backward), marks, made.gradients, settings.train.seed),
      plan.micro_batches);
  add(Purpose::kReduceGradients, ReductionWriter(training).write(made.gradients), 1);
  add(Purpose::kApplyGradients, apply_draft(network, settings, made.gradients, training), 1);
  return made;
}

}  // namespace tessera
