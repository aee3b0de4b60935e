#include "training/verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/threads/on_all_cores.h"
#include "compiler/lower/redundant_work.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/ops/interpreter.h"
#include "training/engine/data/batch_rule.h"
#include "training/verify/capture.h"
#include "training/verify/internal/comparison.h"
#include "training/verify/internal/decisions.h"
#include "training/verify/internal/reference_step.h"

namespace tessera {
namespace {

/// The part of a step's time that the interpretations take, roughly; runs and comparisons take the
/// rest.
constexpr double kInterpretedShare = 0.7;

/// The work of an op for the interpreter, which handles an element at a time.
double work_of(const Graph& graph, const Op& op) {
  const Work work = find_operator(graph, op.kind).work(view(graph, op));
  return work.flops.value() + static_cast<double>(work.bytes.value());
}

/// An element of the perturbed serial run, changed as the perturbation changed `plain` to `moved`.
/// What is negative in none of them stays so: the optimizer takes roots of second moments. Then the
/// change is the same share of the element, which is less.
float nudged_element(float element, double plain, double moved) {
  const float nudged = element + static_cast<float>(moved - plain);
  if (nudged >= 0 || element < 0 || plain <= 0 || moved < 0) return nudged;
  return element * static_cast<float>(moved / plain);
}

class Verification {
 public:
  Verification(const Network& network, const TrainingSettings& settings, const Plan& plan,
               std::shared_ptr<const RunData> data, const VerifyOptions& options)
      : options_(options),
        data_(std::move(data)),
        engine_(network, settings, plan, data_,
                {.runtime = options.runtime,
                 .rules = options.rules,
                 .check_placements = options.check_placements,
                 .verify_passes = options.verify_passes}),
        sampler_({.samples = data_->train->samples(),
                  .batch = settings.train.batch,
                  .parts = 1,
                  .shuffle = settings.order.shuffle == Shuffle::kNone ? Shuffle::kNone
                                                                      : Shuffle::kBeforeSplit,
                  .tail = settings.order.tail,
                  .seed = settings.train.seed}) {
    as_leader([&] {
      serial_.emplace(network, settings, serial_plan(), data_);
      nudged_.emplace(network, settings, serial_plan(), data_);
    });
  }

  VerifyReport run() {
    report_.ok = true;
    report_.removed_values =
        std::ssize(engine_.graph().values()) - std::ssize(engine_.compiled().graph.values());
    report_.notes = notes_of(engine_.compiled());
    compare_initial();
    Batch batch;
    const std::vector<Range> whole{{0, sampler_.options().batch}};
    const std::vector<Range> rows = runtime().is_leader() ? whole : engine_.batches().rows();
    // After a difference the state is no longer the serial one, so nothing can be compared.
    for (int64_t step = 0; step < options_.steps && !differs(); ++step) {
      data_->train->fill_rows(sampler_, step, rows, batch);
      one_step(step, batch);
      if (options_.on_progress) options_.on_progress(static_cast<double>(step + 1));
    }
    report_.ok = !differs();
    return report_;
  }

 private:
  Runtime& runtime() { return engine_.runtime(); }

  /// The other processes wait, and get the exception of the leader.
  template <typename Work>
  void as_leader(const Work& work) {
    runtime().on_all_processes([&] {
      if (runtime().is_leader()) work();
    });
  }

  /// Has the leader found a difference?
  bool differs() { return runtime().any(report_.first_difference.has_value()); }

  /// The variables of the plan, in the leader; the other processes give their parts.
  TensorMap variables() {
    if (runtime().is_leader()) return engine_.variables();
    for (const Variable& variable : engine_.compiled().graph.variables())
      runtime().variable(engine_.compiled().graph.value(variable.value).name);
    return {};
  }

  void compare_initial() {
    const TensorMap mine = variables();
    as_leader([&] { compare_initial(mine, serial_->variables()); });
  }

  void compare_initial(const TensorMap& mine, const TensorMap& theirs) {
    for (const auto& [name, tensor] : mine) {
      const Tensor& other = theirs.at(name);
      if (std::memcmp(tensor.data(), other.data(),
                      static_cast<size_t>(byte_size(tensor.type()).value())) == 0)
        continue;
      const ReferenceTensor a = to_reference(tensor), b = to_reference(other);
      size_t at = 0;
      while (at + 1 < a.values.size() && a.values[at] == b.values[at]) ++at;
      note(
          {0, "initialization", name, "", static_cast<int64_t>(at), a.values[at], b.values[at], 0});
      return;
    }
  }

  void one_step(int64_t step, const Batch& batch) {
    const bool compare = options_.tensor_steps == 0 || step < options_.tensor_steps;
    const TensorMap variables_before = compare ? variables() : TensorMap();
    capture_.clear();
    const Observer observer = observer_of(capture_);
    double loss = 0;
    try {
      loss = engine_.step(batch, compare ? &observer : nullptr).loss;
    } catch (const UserError& error) {
      // Where the serial program diverges, too, the error says that.
      if (!compare || error.exit_code() != ExitCode::kDiverged) throw;
      as_leader([&] {
        decisions_.clear();
        interpret_step(step, batch, variables_before);
      });
      throw;
    }
    report_.losses.push_back(loss);
    if (compare) {
      read_decision_operands();
      as_leader([&] { interpret_step(step, batch, variables_before); });
      compare_tensors(step, capture_);
    }
    as_leader([&] { compare_loss(step, batch, loss); });
  }

  Observer observer_of(Capture& capture) const {
    if (!options_.before_capture) return capture.observer();
    return [before = options_.before_capture, observer = capture.observer()](
               Rank rank, RegisterIndex reg, const Coordinate& coordinate, const std::byte* data) {
      before(rank, reg, coordinate, data);
      observer(rank, reg, coordinate, data);
    };
  }

  void compare_loss(int64_t step, const Batch& batch, double loss) {
    const double serial_loss = serial_->step(batch).loss;
    const double nudged_loss = nudged_->step(batch).loss;
    nudge();
    // The possible effect of rounding on the loss so far: in its own step, and through the state.
    loss_drift_ = std::max(loss_drift_, std::abs(nudged_loss - serial_loss));
    const double tolerance = kSafety * loss_drift_ + loss_tolerance_;
    report_.serial_losses.push_back(serial_loss);
    report_.loss_tolerances.push_back(tolerance);
    if (!(std::abs(loss - serial_loss) <= tolerance))
      note({step, "loss", "loss", "", 0, loss, serial_loss, tolerance});
  }

  /// Calls work(registers) in the leader for groups of some registers, when the capture has what
  /// all ranks filled them with.
  template <typename Work>
  void gather_in_groups(std::span<const RegisterIndex> registers, Capture& capture,
                        const Work& work) {
    for (const std::span<const RegisterIndex> group :
         in_groups(registers, engine_.compiled().tasks, options_.gathered)) {
      runtime().gather(runtime().is_leader() ? std::vector<std::byte>{} : capture.parts_of(group),
                       [&](std::span<const std::byte> parts) { capture.add(parts); });
      as_leader([&] { work(group); });
      capture.release_given(group);
    }
  }

  void read_decision_operands() {
    as_leader([&] { decisions_.clear(); });
    gather_in_groups(decisions_.registers(), capture_, [&](std::span<const RegisterIndex> group) {
      decisions_.add(group, capture_);
    });
    as_leader([&] { decisions_.drop_incomplete(); });
  }

  /// Runs the reference interpreter, plain and perturbed, from the state of the plan before the
  /// step. The plain one decides on the operands of the plan. The perturbed one decides on its own,
  /// because the serial run, with which losses are compared, does so too.
  void interpret_step(int64_t step, const Batch& batch, const TensorMap& variables_before) {
    ReferenceValues state;
    for (const auto& [name, tensor] : variables_before) state[name] = to_reference(tensor);
    for (const std::string& name : data_inputs(engine_.graph()))
      state[name] = to_reference(batch.at(name));
    state[std::string(kStepInput)] = to_reference(Tensor::scalar(static_cast<int32_t>(step)));
    state[std::string(kLearningRateInput)] = to_reference(Tensor::scalar(
        static_cast<float>(learning_rate(engine_.config().optimizer.schedule, step))));
    reference_.run(state, step, decisions_, progress(static_cast<double>(step), kInterpretedShare));
    const Graph& graph = engine_.graph();
    loss_tolerance_ = reference_.tolerance(graph.value(graph.output(engine_.network().loss)).name);
  }

  /// Reports the progress of an interpretation that goes from `begun` steps to `begun + share`.
  std::function<void(const Op&)> progress(double begun, double share) {
    if (!options_.on_progress) return {};
    const Graph& graph = engine_.graph();
    double all = 0;
    for (const Op& op : graph.ops()) all += work_of(graph, op);
    return [this, &graph, begun, share, all, done = 0.0](const Op& op) mutable {
      done += work_of(graph, op);
      options_.on_progress(begun + share * done / std::max(all, 1.0));
    };
  }

  /// What was found in one register.
  struct Comparison {
    double max_error = 0;
    std::optional<Difference> difference;
  };

  void compare_tensors(int64_t step, Capture& capture) {
    const TaskGraph& tasks = engine_.compiled().tasks;
    std::vector<RegisterIndex> compared;
    for (RegisterIndex index : in_program_order(tasks))  // of a partial value the sum is compared
      if (!is_partial_of_micro_batches(tasks.registers[index])) compared.push_back(index);
    report_.tensors = std::ssize(compared);
    report_.exact_tensors = 0;
    gather_in_groups(compared, capture, [&](std::span<const RegisterIndex> group) {
      compare_group(step, group, capture);
    });
  }

  void compare_group(int64_t step, std::span<const RegisterIndex> compared,
                     const Capture& capture) {
    const TaskGraph& tasks = engine_.compiled().tasks;
    std::vector<Comparison> comparisons(compared.size());
    on_all_cores(std::ssize(compared),
                 [&](int64_t i) { comparisons[i] = compare_register(step, compared[i], capture); });
    for (size_t i = 0; i < compared.size(); ++i) {
      if (tolerance_of(tasks.registers[compared[i]]) == 0) ++report_.exact_tensors;
      report_.max_error = std::max(report_.max_error, comparisons[i].max_error);
      if (comparisons[i].difference) note(std::move(*comparisons[i].difference));
    }
  }

  double tolerance_of(const Register& reg) const {
    return reference_.tolerance(value_name(engine_.graph(), reg));
  }

  Comparison compare_register(int64_t step, RegisterIndex index, const Capture& capture) const {
    const Register& reg = engine_.compiled().tasks.registers[index];
    const Capture::Whole got = capture.assemble(index);
    ensure(got.missing.empty(),
           [&] { return "register '" + reg.name + "' was filled on every rank: " + got.missing; });
    const std::string name = value_name(engine_.graph(), reg);
    const ReferenceTensor& all = reference_.expected(name);
    const ReferenceTensor rows = is_part(reg) ? rows_of(all, reg) : ReferenceTensor{};
    const ReferenceTensor& wanted = is_part(reg) ? rows : all;
    Comparison found;
    const auto differ = [&](const std::string& text, size_t at, double value, double serial,
                            double tolerance) {
      found.difference = {step,  op_of(name), reg.name, text, static_cast<int64_t>(at),
                          value, serial,      tolerance};
      return found;
    };
    if (got.mismatch) {
      const size_t at = got.mismatch->at;
      return differ(to_text(reg.type, reg.attr) + ", replicas differ: " + to_text(*got.mismatch),
                    at, got.tensor.values[at], wanted.values[at], 0);
    }
    ElementComparison comparison(wanted.values, tolerance_of(reg), reg.type->dtype);
    const auto finish = [&](size_t at, double value) {
      found.max_error = comparison.max_error();
      return differ(to_text(reg.type, reg.attr), at, value, comparison.serial(at),
                    comparison.tolerance());
    };
    const std::vector<double>& values = got.tensor.values;
    const size_t at = comparison.first_different(values, got.held);
    if (at < values.size()) return finish(at, values[at]);
    for (const auto& copy : got.copies)
      if (!comparison.is_equal_enough(copy.at, copy.value)) return finish(copy.at, copy.value);
    found.max_error = comparison.max_error();
    return found;
  }

  std::string op_of(const std::string& value) const {
    const Graph& graph = engine_.graph();
    const OpId producer = graph.value(*graph.find_value(value)).producer;
    return producer.index < 0 ? value : graph.op(producer).name;
  }

  /// Changes the state of the perturbed serial run as rounding may change it in this step: by the
  /// effect of the perturbation on each element.
  void nudge() {
    for (const Variable& variable : engine_.graph().variables()) {
      if (!variable.next) continue;
      const std::string& next = engine_.graph().value(*variable.next).name;
      const std::string& name = engine_.graph().value(variable.value).name;
      const auto& plain = reference_.expected(next).values;
      const auto& moved = reference_.perturbed(next).values;
      Tensor value = nudged_->runtime().variable(name);
      const auto elements = value.values<float>();
      for (size_t i = 0; i < elements.size(); ++i)
        elements[i] = nudged_element(elements[i], plain[i], moved[i]);
      nudged_->runtime().set_variable(name, value);
    }
  }

  void note(Difference difference) {
    if (!report_.first_difference) report_.first_difference = std::move(difference);
  }

  const VerifyOptions& options_;
  std::shared_ptr<const RunData> data_;
  Engine engine_;
  Capture capture_{engine_.compiled().tasks};
  std::optional<Engine> serial_, nudged_;  // of the leader
  Sampler sampler_;
  VerifyReport report_;
  DecisionOperands decisions_{engine_.graph(), engine_.compiled()};
  ReferenceStep reference_{engine_.graph(), options_.perturbed};
  double loss_tolerance_ = 0;
  double loss_drift_ = 0;
};

}  // namespace

std::shared_ptr<PerturbedRuns> no_perturbed_runs() {
  return std::make_shared<PerturbedRuns>();
}

VerifyReport verify_plan(const Network& network, const TrainingSettings& settings, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options) {
  return Verification(network, resolved_for(settings, network, plan), plan, std::move(data),
                      options)
      .run();
}

VerifyReport verify_plan(const RunConfig& config, const Plan& plan,
                         std::shared_ptr<const RunData> data, const VerifyOptions& options) {
  return verify_plan(network_of(config.model), training_settings(config), plan, std::move(data),
                     options);
}

}  // namespace tessera
