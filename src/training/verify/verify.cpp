#include "training/verify/verify.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/machine_memory.h"
#include "base/text/count_text.h"
#include "base/threads/on_all_cores.h"
#include "compiler/lower/redundant_work.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "ir/ops/interpreter.h"
#include "kernels/element_types.h"
#include "training/engine/data/batch_rule.h"
#include "training/verify/capture.h"
#include "training/verify/internal/comparison.h"
#include "training/verify/internal/decisions.h"
#include "training/verify/internal/reference_step.h"
#include "training/verify/internal/resting_tensors.h"
#include "training/verify/internal/windows.h"

namespace tessera {
namespace {

/// The part of a step's time that the reference and the comparisons take, roughly; the executions
/// take the rest.
constexpr double kComparedShare = 0.9;

/// What an execution captures: at least so much, or this part of all else that is kept.
constexpr Bytes kMinCaptured{256 << 20};
constexpr int64_t kCapturedShare = 16;

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

/// The values of f16 or bf16 of which a rank holds a partial value that it has rounded.
std::vector<ValueId> values_rounded_by_ranks(const Graph& graph, const TaskGraph& tasks) {
  std::set<ValueId> values;
  for (const RegisterIndex index : in_program_order(tasks)) {
    const Register& reg = tasks.registers[index];
    if (is_rounded_partial(reg) && is_narrow_float(reg.type->dtype))
      values.insert(*graph.find_value(name_of_partial(graph, reg)));
  }
  return {values.begin(), values.end()};
}

/// From so many bytes of variables on, states rest in a file.
constexpr Bytes kMaxStateInMemory{256 << 20};

Bytes state_bytes(const Graph& graph) {
  Bytes bytes(0);
  for (const Variable& variable : graph.variables()) bytes += byte_size(graph.type(variable.value));
  return bytes;
}

bool rests_in_file(const Graph& graph) {
  return state_bytes(graph) > kMaxStateInMemory;
}

std::vector<std::string> variable_names(const Engine& engine) {
  std::vector<std::string> names;
  const Graph& graph = engine.compiled().graph;
  for (const Variable& variable : graph.variables())
    names.push_back(graph.value(variable.value).name);
  return names;
}

/// All processes call it: each gets the whole variables.
void keep_variables(Engine& engine, RestingTensors& state) {
  for (const std::string& name : variable_names(engine))
    state.put(name, engine.runtime().variable(name));
}

void give_variables(const RestingTensors& state, Engine& engine) {
  for (const std::string& name : variable_names(engine))
    engine.runtime().set_variable(name, state.get(name));
}

/// Two trajectories of the serial program: its own, and one whose state is changed in each step as
/// rounding may change it. Their programs are there during a step only.
class SerialRuns {
 public:
  SerialRuns(const Network& network, const TrainingSettings& settings,
             std::shared_ptr<const RunData> data, bool in_file)
      : network_(network),
        settings_(settings),
        data_(std::move(data)),
        state_(in_file),
        nudged_(in_file) {
    Engine engine = new_engine(true);
    keep_variables(engine, state_);
    bytes_ = bytes_on_all_ranks(engine.compiled().tasks);
  }

  /// Before the first step.
  const RestingTensors& initial() const { return state_; }
  /// What a step of the serial program keeps while it runs.
  Bytes bytes() const { return bytes_; }

  struct Losses {
    double serial = 0, nudged = 0;
  };
  /// Executes a step of both.
  ///   is_last  the states after it are not needed
  Losses step(int64_t step, const Batch& batch, bool is_last) {
    Losses losses;
    if (step > 0) losses.nudged = run(nudged_, nullptr, step, batch, is_last);
    // Until the first change they are the same.
    losses.serial = run(state_, step == 0 ? &nudged_ : nullptr, step, batch, is_last);
    if (step == 0) losses.nudged = losses.serial;
    return losses;
  }

  /// Changes a variable of the perturbed trajectory by the effect of the perturbation on each
  /// element.
  void nudge(const std::string& name, const std::vector<double>& plain,
             const std::vector<double>& moved) {
    if (!nudged_.contains(name)) return;
    Tensor tensor = nudged_.get(name);
    const auto elements = tensor.values<float>();
    for (size_t i = 0; i < elements.size(); ++i)
      elements[i] = nudged_element(elements[i], plain[i], moved[i]);
    nudged_.put(name, std::move(tensor));
  }

 private:
  Engine new_engine(bool initialize) const {
    return {network_, settings_, serial_plan(), data_, {.runtime = {}, .initialize = initialize}};
  }

  ///   other  gets the state after the step, too
  double run(RestingTensors& state, RestingTensors* other, int64_t step, const Batch& batch,
             bool is_last) const {
    Engine engine = new_engine(false);
    give_variables(state, engine);
    auto position = engine.position();
    position.step = step;
    engine.set_position(position);
    const double loss = engine.step(batch).loss;
    if (is_last) state.clear();
    if (is_last) return loss;
    keep_variables(engine, state);
    if (other) keep_variables(engine, *other);
    return loss;
  }

  const Network& network_;
  const TrainingSettings& settings_;
  std::shared_ptr<const RunData> data_;
  RestingTensors state_, nudged_;
  Bytes bytes_{0};
};

class Verification {
 public:
  Verification(const Network& network, const TrainingSettings& settings, const Plan& plan,
               std::shared_ptr<const RunData> data, const VerifyOptions& options)
      : options_(options),
        settings_(settings),
        data_(std::move(data)),
        engine_(network, settings_, plan, data_,
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
    as_leader([&] { serial_.emplace(network, settings_, data_, rests_in_file(graph())); });
    make_windows();
  }

  VerifyReport run() {
    report_.ok = true;
    report_.removed_values = std::ssize(graph().values()) - std::ssize(compiled().graph.values());
    report_.notes = notes_of(compiled());
    for (const ComparedPiece& piece : pieces_) report_.tensors += std::ssize(piece.registers);
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
  const Graph& graph() const { return engine_.graph(); }
  const Compiled& compiled() const { return engine_.compiled(); }

  /// The other processes wait, and get the exception of the leader.
  template <typename Work>
  void as_leader(const Work& work) {
    runtime().on_all_processes([&] {
      if (runtime().is_leader()) work();
    });
  }

  /// Has the leader found a difference?
  bool differs() { return runtime().any(report_.first_difference.has_value()); }

  Bytes piece_bytes() const {
    return options_.captured > Bytes(0) ? std::min(options_.captured, ReferencePieces::kPieceBytes)
                                        : ReferencePieces::kPieceBytes;
  }

  /// Divides a step into windows, and tells what the verification takes.
  void make_windows() {
    const VerifyNeed need = need_without_capture();
    const Bytes limit = options_.captured > Bytes(0)
                            ? options_.captured
                            : std::max(kMinCaptured, Bytes(need.all().value() / kCapturedShare));
    windows_ = capture_windows(pieces_, decisions_, compiled().tasks, limit);
    tell(need);
  }

  VerifyNeed need_without_capture() {
    VerifyNeed need;
    need.ranks = bytes_on_all_ranks(compiled().tasks);
    const Bytes state = rests_in_file(graph()) ? Bytes(0) : state_bytes(graph());
    need.reference = reference_pieces_.peak(reference_.interpretations());
    need.states = options_.steps > 1 ? state + state + state : state;
    as_leader([&] { need.serial = serial_->bytes() + need.states; });
    need.seconds = Seconds(static_cast<double>(options_.steps) * reference_.seconds());
    return need;
  }

  void tell(VerifyNeed need) {
    for (const CaptureWindow& window : windows_)
      need.captured = std::max(need.captured, window.bytes);
    need.executions = static_cast<int>(windows_.size());
    as_leader([&] {
      if (options_.on_need) options_.on_need(need);
      if (need.all() <= machine_memory()) return;
      throw UserError("this verification does not fit into the memory of this machine",
                      "it takes " + to_text(need.all()) + ": " + to_text(need) +
                          "; the machine has " + to_text(machine_memory()),
                      options_.smaller_case.empty()
                          ? "compare a model of fewer layers, and fewer rows"
                          : "compare a smaller case, which has the same kinds of ops and "
                            "exchanges: " +
                                options_.smaller_case,
                      ExitCode::kOutOfMemory);
    });
  }

  void compare_initial() {
    keep_variables(engine_, before_);
    as_leader([&] {
      for (const std::string& name : variable_names(engine_))
        compare_initial(name, before_.get(name), serial_->initial().get(name));
    });
  }

  void compare_initial(const std::string& name, const Tensor& mine, const Tensor& other) {
    if (std::memcmp(mine.data(), other.data(),
                    static_cast<size_t>(byte_size(mine.type()).value())) == 0)
      return;
    const ReferenceTensor a = to_reference(mine), b = to_reference(other);
    size_t at = 0;
    while (at + 1 < a.values.size() && a.values[at] == b.values[at]) ++at;
    note({0, "initialization", name, "", static_cast<int64_t>(at), a.values[at], b.values[at], 0});
  }

  // ---- a step ----

  void one_step(int64_t step, const Batch& batch) {
    const bool compare = options_.tensor_steps == 0 || step < options_.tensor_steps;
    if (compare) keep_variables(engine_, before_);
    const auto position = engine_.position();
    const double loss =
        compare ? execute_window(step, batch, windows_.front()) : engine_.step(batch, nullptr).loss;
    report_.losses.push_back(loss);
    SerialRuns::Losses serial_losses;
    // An error of the serial run waits: the reference says where its values left their range.
    std::exception_ptr serial_failure;
    as_leader([&] {
      try {
        serial_losses = serial_->step(step, batch, step + 1 == options_.steps);
      } catch (const UserError& error) {
        if (!compare || error.exit_code() != ExitCode::kDiverged) throw;
        serial_failure = std::current_exception();
      }
    });
    if (compare)
      compare_step(step, batch, position, loss);
    else
      as_leader([&] { nudge_again(); });
    as_leader([&] {
      if (serial_failure && !report_.first_difference) std::rethrow_exception(serial_failure);
      if (!serial_failure) compare_loss(step, loss, serial_losses);
    });
  }

  /// Executes a step of the plan, and captures the registers of a window.
  ///   throws  UserError (5) when it diverges; where the serial program does, too, it says that
  double execute_window(int64_t step, const Batch& batch, const CaptureWindow& window) {
    capture_.select(window.registers);
    const Observer observer = observer_of(capture_);
    try {
      return engine_.step(batch, &observer).loss;
    } catch (const UserError& error) {
      if (error.exit_code() != ExitCode::kDiverged) throw;
      as_leader([&] {
        decisions_.clear();
        begin_reference(step, batch);
        for (const ComparedPiece& piece : pieces_) interpret(piece.ops);
      });
      throw;
    }
  }

  Observer observer_of(Capture& capture) const {
    if (!options_.before_capture) return capture.observer();
    return [before = options_.before_capture, observer = capture.observer()](
               Rank rank, RegisterIndex reg, const Coordinate& coordinate, const std::byte* data) {
      before(rank, reg, coordinate, data);
      observer(rank, reg, coordinate, data);
    };
  }

  /// Compares every tensor of a step, of which the first window was executed.
  void compare_step(int64_t step, const Batch& batch, const DataPosition& position, double loss) {
    report_.exact_tensors = 0;
    done_work_ = 0;
    as_leader([&] {
      decisions_.clear();
      begin_reference(step, batch);
    });
    for (size_t i = 0; i < windows_.size() && !differs(); ++i) {
      if (i > 0) {
        give_variables(before_, engine_);
        engine_.set_position(position);
        const double again = execute_window(step, batch, windows_[i]);
        ensure(std::bit_cast<uint64_t>(again) == std::bit_cast<uint64_t>(loss),
               "a step from one state has one loss");
      }
      gather(windows_[i].registers);
      as_leader([&] { compare_window(step, windows_[i]); });
      capture_.release_given(windows_[i].registers);
    }
  }

  /// Gives the leader what all ranks filled the registers of the capture with.
  void gather(std::span<const RegisterIndex> registers) {
    for (const std::span<const RegisterIndex> group :
         in_groups(registers, compiled().tasks, options_.gathered))
      runtime().gather(runtime().is_leader() ? std::vector<std::byte>{} : capture_.parts_of(group),
                       [&](std::span<const std::byte> parts) { capture_.add(parts); });
  }

  /// The reference starts from the state of the plan before the step.
  void begin_reference(int64_t step, const Batch& batch) {
    std::map<std::string, const Tensor*> inputs;
    for (const std::string& name : data_inputs(graph())) inputs[name] = &batch.at(name);
    step_input_ = Tensor::scalar(static_cast<int32_t>(step));
    rate_input_ = Tensor::scalar(
        static_cast<float>(learning_rate(engine_.config().optimizer.schedule, step)));
    inputs[std::string(kStepInput)] = &step_input_;
    inputs[std::string(kLearningRateInput)] = &rate_input_;
    reference_.begin(
        [this, inputs = std::move(inputs)](const std::string& name) {
          const auto found = inputs.find(name);
          return to_reference(found == inputs.end() ? before_.get(name) : found->second->clone());
        },
        step);
  }

  void compare_window(int64_t step, const CaptureWindow& window) {
    for (int i = window.begin; i < window.end && !report_.first_difference; ++i) {
      const ComparedPiece& piece = pieces_[i];
      reference_.read_state(piece.ops);
      read_operands(piece, true);
      reference_.run(piece.ops, decisions_, rounding_of(piece));
      compare_registers(step, piece.registers);
      read_operands(piece, false);
      nudge(piece.ops);
      decisions_.release_after(OpId{piece.ops.end - 1});
      reference_.release(piece.ops);
      tell_progress(step, piece.ops);
    }
  }

  /// By value: what the rounding of the partial values of its ranks may do to it.
  std::map<std::string, double> rounding_of(const ComparedPiece& piece) const {
    std::map<std::string, double> rounding;
    for (const RegisterIndex index : piece.rounded) {
      const Register& reg = compiled().tasks.registers[index];
      rounding[name_of_partial(graph(), reg)] +=
          rounding_of_partials(reg, capture_.assemble(index));
    }
    return rounding;
  }

  /// Only the reference, for its range.
  void interpret(const ReferencePieces::Piece& piece) {
    reference_.read_state(piece);
    reference_.run(piece, decisions_, {});
    reference_.release(piece);
  }

  /// Reads the operands of decisions that are inputs or variables, or those that ops make. What a
  /// plan decides on a wrong operand says nothing about the decisions of a right plan.
  void read_operands(const ComparedPiece& piece, bool of_state) {
    for (const ValueId operand : piece.operands) {
      if ((graph().value(operand).producer.index < 0) != of_state) continue;
      decisions_.read(operand, capture_);
      const auto known = decisions_.values().find(graph().value(operand).name);
      if (known == decisions_.values().end()) continue;
      const ReferenceTensor& wanted = reference_.expected(operand);
      ElementComparison comparison(wanted.values, reference_.tolerance(operand), wanted.type.dtype);
      const std::vector<double>& got = known->second.values;
      if (comparison.first_different(got, {}) < got.size()) decisions_.drop_from(operand);
    }
  }

  void tell_progress(int64_t step, const ReferencePieces::Piece& piece) {
    if (!options_.on_progress) return;
    for (int i = piece.begin; i < piece.end; ++i) done_work_ += work_of(graph(), graph().ops()[i]);
    if (all_work_ == 0)
      for (const Op& op : graph().ops()) all_work_ += work_of(graph(), op);
    options_.on_progress(static_cast<double>(step) +
                         kComparedShare * done_work_ / std::max(all_work_, 1.0));
  }

  // ---- comparisons ----

  void compare_loss(int64_t step, double loss, const SerialRuns::Losses& losses) {
    // The possible effect of rounding on the loss so far: in its own step, and through the state.
    loss_drift_ = std::max(loss_drift_, std::abs(losses.nudged - losses.serial));
    loss_tolerance_ = reference_.tolerance(graph().output(engine_.network().loss));
    const double tolerance = kSafety * loss_drift_ + loss_tolerance_;
    report_.serial_losses.push_back(losses.serial);
    report_.loss_tolerances.push_back(tolerance);
    if (!(std::abs(loss - losses.serial) <= tolerance))
      note({step, "loss", "loss", "", 0, loss, losses.serial, tolerance});
  }

  /// What was found in one register.
  struct Comparison {
    double max_error = 0;
    std::optional<Difference> difference;
  };

  void compare_registers(int64_t step, const std::vector<RegisterIndex>& compared) {
    std::vector<Comparison> comparisons(compared.size());
    on_all_cores(std::ssize(compared),
                 [&](int64_t i) { comparisons[i] = compare_register(step, compared[i]); });
    for (size_t i = 0; i < compared.size(); ++i) {
      if (reference_.tolerance(value_of(compiled().tasks.registers[compared[i]])) == 0)
        ++report_.exact_tensors;
      report_.max_error = std::max(report_.max_error, comparisons[i].max_error);
      if (comparisons[i].difference) note(std::move(*comparisons[i].difference));
    }
  }

  ValueId value_of(const Register& reg) const {
    return *graph().find_value(value_name(graph(), reg));
  }

  Comparison compare_register(int64_t step, RegisterIndex index) const {
    const Register& reg = compiled().tasks.registers[index];
    const Capture::Whole got = capture_.assemble(index);
    ensure(got.missing.empty(),
           [&] { return "register '" + reg.name + "' was filled on every rank: " + got.missing; });
    const ValueId value = value_of(reg);
    const ReferenceTensor& all = reference_.expected(value);
    const ReferenceTensor rows = is_part(reg) ? rows_of(all, reg) : ReferenceTensor{};
    const ReferenceTensor& wanted = is_part(reg) ? rows : all;
    Comparison found;
    const auto differ = [&](const std::string& text, size_t at, double element, double serial,
                            double tolerance) {
      found.difference = {step,    op_of(value), reg.name, text, static_cast<int64_t>(at),
                          element, serial,       tolerance};
      return found;
    };
    if (got.mismatch) {
      const size_t at = got.mismatch->at;
      return differ(to_text(reg.type, reg.attr) + ", replicas differ: " + to_text(*got.mismatch),
                    at, got.tensor.values[at], wanted.values[at], 0);
    }
    ElementComparison comparison(wanted.values, reference_.tolerance(value), reg.type->dtype);
    const auto finish = [&](size_t at, double element) {
      found.max_error = comparison.max_error();
      return differ(to_text(reg.type, reg.attr), at, element, comparison.serial(at),
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

  std::string op_of(ValueId value) const {
    const OpId producer = graph().value(value).producer;
    return producer.index < 0 ? graph().value(value).name : graph().op(producer).name;
  }

  // ---- the perturbed trajectory ----

  /// Changes the variables whose next values a piece makes.
  void nudge(const ReferencePieces::Piece& piece) {
    for (const Variable& variable : graph().variables()) {
      if (!variable.next) continue;
      const OpId producer = graph().value(*variable.next).producer;
      if (producer.index < piece.begin || producer.index >= piece.end) continue;
      const std::string& name = graph().value(variable.value).name;
      const std::vector<double>& plain = reference_.expected(*variable.next).values;
      const std::vector<double>& moved = reference_.perturbed(*variable.next).values;
      serial_->nudge(name, plain, moved);
      if (options_.tensor_steps > 0) nudges_[name] = {plain, moved};
    }
  }

  /// In a step whose tensors are not compared: the changes of the last one that was.
  void nudge_again() {
    for (const auto& [name, change] : nudges_) serial_->nudge(name, change.first, change.second);
  }

  void note(Difference difference) {
    if (!report_.first_difference) report_.first_difference = std::move(difference);
  }

  const VerifyOptions& options_;
  const TrainingSettings settings_;
  std::shared_ptr<const RunData> data_;
  Engine engine_;
  RestingTensors before_{rests_in_file(graph())};  // the variables of the plan before the step
  Capture capture_{compiled().tasks};
  std::optional<SerialRuns> serial_;  // of the leader
  Sampler sampler_;
  VerifyReport report_;
  DecisionOperands decisions_{graph(), compiled()};
  ReferencePieces reference_pieces_{graph(), piece_bytes()};
  ReferenceStep reference_{graph(), reference_pieces_,
                           values_rounded_by_ranks(graph(), compiled().tasks)};
  std::vector<ComparedPiece> pieces_ =
      compared_pieces(reference_pieces_, graph(), compiled().tasks, decisions_);
  std::vector<CaptureWindow> windows_;
  Tensor step_input_, rate_input_;
  /// By variable: its next values, plain and perturbed, in the last step that was compared.
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> nudges_;
  double done_work_ = 0, all_work_ = 0;
  double loss_tolerance_ = 0;
  double loss_drift_ = 0;
};

}  // namespace

Bytes VerifyNeed::all() const {
  const Bytes reading = states + reference;
  return ranks + captured + std::max(reading, serial);
}

std::string to_text(const VerifyNeed& need) {
  return to_text(need.ranks) + " of ranks, " + to_text(need.captured) + " captured, " +
         to_text(need.states) + " of states, " + to_text(need.reference) + " of the reference";
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
