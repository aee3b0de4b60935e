#include "verify/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <future>
#include <limits>

#include "base/error.h"
#include "base/largest.h"
#include "base/on_all_cores.h"
#include "base/random.h"
#include "engine/batch_rule.h"
#include "lower/waste.h"
#include "network/family.h"
#include "network/graphs.h"
#include "ops/interpreter.h"
#include "verify/capture.h"

namespace tessera {
namespace {

/// The rounding errors of a run are far below their bounds; the perturbed interpreter uses the
/// bounds, with random signs. Four times its effect allows for less favourable signs.
constexpr double kSafety = 4;

/// The part of a step's time that the interpretations take, roughly; runs and comparisons take the
/// rest.
constexpr double kInterpretedShare = 0.7;

/// The work of an op for the interpreter, which handles an element at a time.
double work_of(const Graph& graph, const Op& op) {
  const Work work = find_operator(graph, op.kind).work(view(graph, op));
  return work.flops.value() + static_cast<double>(work.bytes.value());
}

/// Does f32 hold all of them? Infinity itself is in range: masks use it.
bool are_in_range(const std::vector<double>& values) {
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  size_t in_range = 0;  // a count has no branch
  for (const double value : values)
    in_range += std::abs(value) <= kMost || std::abs(value) == kInfinity;
  return in_range == values.size();
}

/// Compares elements with those of a serial tensor.
class ElementComparison {
 public:
  /// `serial` outlives it. With tolerance 0 an element of f32 is the serial one rounded to f32.
  ElementComparison(const std::vector<double>& serial, double tolerance, DType dtype)
      : serial_(serial),
        tolerance_(tolerance),
        is_rounded_(tolerance == 0 && dtype == DType::kF32) {}

  double tolerance() const { return tolerance_; }
  double serial(size_t at) const {
    return is_rounded_ ? static_cast<double>(static_cast<float>(serial_[at])) : serial_[at];
  }
  /// The largest error so far, as a fraction of the tolerance.
  double max_error() const { return max_error_; }

  bool is_equal_enough(size_t at, double value) {
    if (value == serial(at)) return true;
    const double error = std::abs(value - serial(at));
    max_error_ = std::max(
        max_error_, tolerance_ > 0 ? error / tolerance_ : std::numeric_limits<double>::infinity());
    return tolerance_ > 0 && error <= tolerance_;
  }

  /// The first element that is held and not equal enough; the number of values if there is none.
  ///   held  by element; empty: all are held
  size_t first_different(const std::vector<double>& values, const std::vector<bool>& held) {
    for (size_t begin = 0; begin < values.size(); begin += kBlock) {
      const size_t count = std::min(kBlock, values.size() - begin);
      if (held.empty() && are_equal_enough(begin, count, values.data() + begin)) continue;
      for (size_t i = begin; i < begin + count; ++i)
        if ((held.empty() || held[i]) && !is_equal_enough(i, values[i])) return i;
    }
    return values.size();
  }

 private:
  static constexpr size_t kBlock = 256;

  /// The same for neighbouring elements without a branch, so that the compiler makes vectors of it.
  /// The largest error counts only if all are equal enough: it is that up to the first difference.
  bool are_equal_enough(size_t begin, size_t count, const double* values) {
    bool are_equal = true;
    const double most = largest_of(count, 0, [&](size_t i) {
      const double wanted = serial(begin + i);
      const double error = values[i] == wanted ? 0 : std::abs(values[i] - wanted);
      are_equal &= error <= tolerance_;
      return error;
    });
    if (are_equal && tolerance_ > 0) max_error_ = std::max(max_error_, most / tolerance_);
    return are_equal;
  }

  const std::vector<double>& serial_;
  double tolerance_;
  bool is_rounded_;
  double max_error_ = 0;
};

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
    if (compare) interpret_step(step, batch);
    capture_.clear();
    const Observer observer = observer_of(capture_);
    const double loss = engine_.step(batch, compare ? &observer : nullptr).loss;
    report_.losses.push_back(loss);
    if (compare) compare_tensors(step, capture_);
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

  /// Runs the reference interpreter, plain and perturbed, from the present state of the plan.
  void interpret_step(int64_t step, const Batch& batch) {
    const TensorMap variables_now = variables();
    as_leader([&] { interpret_step(step, batch, variables_now); });
  }

  void interpret_step(int64_t step, const Batch& batch, const TensorMap& variables_now) {
    ReferenceValues state;
    for (const auto& [name, tensor] : variables_now) state[name] = to_reference(tensor);
    for (const std::string& name : data_inputs(engine_.graph()))
      state[name] = to_reference(batch.at(name));
    state[std::string(kStepInput)] = to_reference(Tensor::scalar(static_cast<int32_t>(step)));
    state[std::string(kLearningRateInput)] = to_reference(Tensor::scalar(
        static_cast<float>(learning_rate(engine_.config().optimizer.schedule, step))));
    auto plain = std::async(std::launch::async, [&] {
      return interpret(engine_.graph(), state, {}, std::move(expected_));
    });
    changes_.clear();
    InterpreterOptions perturbed;  // it takes longer than the plain one beside it
    perturbed.perturb = static_cast<uint64_t>(step) + 1;
    perturbed.tolerances = &changes_;
    perturbed.on_op = progress(static_cast<double>(step), kInterpretedShare);
    perturbed_ = interpret(engine_.graph(), state, perturbed, std::move(perturbed_));
    expected_ = plain.get();
    find_changes(step);
    const Graph& graph = engine_.graph();
    loss_tolerance_ = kSafety * changes_.at(graph.value(graph.output(engine_.network().loss)).name);
  }

  /// Adds to the changes what the perturbation did to each value.
  ///
  /// NaN differs from NaN, so a run that diverges would look like a fault of the plan.
  void find_changes(int64_t step) {
    std::vector<ReferenceValues::const_iterator> values;
    for (auto value = expected_.cbegin(); value != expected_.cend(); ++value)
      values.push_back(value);
    std::vector<double> changes(values.size());
    std::vector<char> is_finite(values.size());
    on_all_cores(std::ssize(values), [&](int64_t i) {
      const auto& [name, plain] = *values[i];
      const ReferenceTensor& moved = perturbed_.at(name);
      changes[i] = largest_change(plain, moved);
      is_finite[i] = are_in_range(plain.values) && are_in_range(moved.values);
    });
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& name = values[i]->first;
      const double change = changes_[name] += changes[i];
      if (is_finite[i] && std::isfinite(change)) continue;
      throw UserError("the serial program diverged: '" + name + "' left the range of f32 in step " +
                          std::to_string(step + 1),
                      "a plan can be compared only with numbers that have a finite rounding error",
                      "lower optimizer.learning_rate, or compare fewer steps by --steps",
                      ExitCode::kDiverged);
    }
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
    for (const std::span<const RegisterIndex> group :
         in_groups(compared, tasks, options_.gathered)) {
      runtime().gather(runtime().is_leader() ? std::vector<std::byte>{} : capture.parts_of(group),
                       [&](std::span<const std::byte> parts) { capture.add(parts); });
      as_leader([&] { compare_group(step, group, capture); });
      capture.forget(group);
    }
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
    return kSafety * changes_.at(value_name(engine_.graph(), reg));
  }

  Comparison compare_register(int64_t step, RegisterIndex index, const Capture& capture) const {
    const Register& reg = engine_.compiled().tasks.registers[index];
    const Capture::Whole got = capture.assemble(index);
    ensure(got.missing.empty(),
           "register '" + reg.name + "' was filled on every rank: " + got.missing);
    const std::string name = value_name(engine_.graph(), reg);
    const ReferenceTensor& all = expected_.at(name);
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
      const auto& plain = expected_.at(next).values;
      const auto& moved = perturbed_.at(next).values;
      Tensor value = nudged_->runtime().variable(name);
      const auto elements = value.values<float>();
      for (size_t i = 0; i < elements.size(); ++i)
        elements[i] += static_cast<float>(moved[i] - plain[i]);
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
  ReferenceValues expected_, perturbed_;  // of the interpreter, in the last step that was compared
  std::map<std::string, double>
      changes_;  // by value: what the perturbation of all ops did to it, and what its own may do
  double loss_tolerance_ = 0;
  double loss_drift_ = 0;
};

}  // namespace

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
