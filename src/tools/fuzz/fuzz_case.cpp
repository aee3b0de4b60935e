#include "tools/fuzz/fuzz_case.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/error.h"
#include "base/text/text.h"
#include "compiler/rewrite/rewrite.h"
#include "ir/graph/initializer.h"
#include "ir/ops/interpreter.h"
#include "runtime/runtime/runtime.h"
#include "training/verify/capture.h"

namespace tessera::fuzz {
namespace {

/// The rounding errors of a run are far below their bounds; the perturbed interpreter uses the
/// bounds, with random signs. Four times its effect leaves a margin for worse signs (as in `tessera
/// verify`).
constexpr double kSafety = 4;

/// Before a difference counts, the oracle is rounded, and perturbed this many times more with other
/// signs, every second time with equal signs along some dims. A comparison of values that are equal
/// up to rounding may have either result, rounding may make such values equal, and broadcast values
/// are rounded alike everywhere.
constexpr int kMorePerturbations = 16;

constexpr Seconds kDeadline{20};

/// The reference values of one step, and the tolerance of each value.
class Oracle {
 public:
  ///   more_rounding  by value: the errors of its partial values
  Oracle(const FuzzCase& given, ReferenceValues state, std::map<std::string, double> more_rounding)
      : given_(given),
        state_(std::move(state)),
        more_rounding_(std::move(more_rounding)),
        expected_(interpret(given.graph, state_)) {
    if (!given_.exact) widen({.perturb = 1});
  }

  const ReferenceTensor& expected(const std::string& name) const { return expected_.at(name); }
  double tolerance(const std::string& name) const {
    return given_.exact ? 0 : kSafety * changes_.at(name);
  }

  /// Is the element within its tolerance, if necessary after more perturbations?
  bool accepts(const std::string& name, DType dtype, double got, double wanted) {
    if (within(name, dtype, got, wanted)) return true;
    if (given_.exact) return false;
    if (perturbations_ == 0) widen({.round = true});
    while (!within(name, dtype, got, wanted)) {
      if (perturbations_++ == kMorePerturbations) return false;
      widen(
          {.perturb = static_cast<uint64_t>(perturbations_) + 1, .alike = perturbations_ % 2 == 1});
    }
    return true;
  }

 private:
  bool within(const std::string& name, DType dtype, double got, double wanted) const {
    if (got == wanted || (std::isnan(got) && std::isnan(wanted))) return true;
    // A value without rounding is still stored as f32.
    if (dtype == DType::kF32 && got == static_cast<double>(static_cast<float>(wanted))) return true;
    return std::abs(got - wanted) <= tolerance(name);
  }

  /// Extends the tolerance of each value by the effect of another rounding.
  void widen(InterpreterOptions rounding) {
    std::map<std::string, double> own;
    rounding.tolerances = &own;
    rounding.more_rounding = &more_rounding_;
    const ReferenceValues other = interpret(given_.graph, state_, rounding);
    for (const auto& [name, tolerance] : own) own_[name] = std::max(own_[name], tolerance);
    for (const auto& [name, tensor] : expected_)
      changes_[name] =
          std::max(changes_[name], own_[name] + largest_change(tensor, other.at(name)));
  }

  const FuzzCase& given_;
  ReferenceValues state_;
  std::map<std::string, double> more_rounding_;
  ReferenceValues expected_;
  std::map<std::string, double> own_;  // by value: the error of its own op
  std::map<std::string, double>
      changes_;  // by value: what the perturbation of all ops did to it, and what its own may do
  int perturbations_ = 0;
};

class CaseRun {
 public:
  CaseRun(const FuzzCase& given, std::shared_ptr<const TaskGraph> tasks)
      : given_(given),
        tasks_(std::move(tasks)),
        capture_(*tasks_),
        order_(in_program_order(*tasks_)) {}

  std::optional<CaseFailure> run() {
    Runtime runtime(ranks(*tasks_), {.deadline = kDeadline});
    LoadedProgram& program = runtime.load(tasks_);
    runtime.initialize(program, given_.seed);
    for (const Variable& variable : given_.graph.variables()) begin_variable(runtime, variable);
    if (failure_) return failure_;
    for (int64_t step = 0; step < given_.steps && !failure_; ++step)
      one_step(runtime, program, step);
    return failure_;
  }

 private:
  const std::string& name_of(ValueId value) const { return given_.graph.value(value).name; }

  /// Sets a variable that the case fills, or checks the values that the ranks initialized.
  void begin_variable(Runtime& runtime, const Variable& variable) {
    const std::string& name = name_of(variable.value);
    const TensorType& type = given_.graph.type(variable.value);
    if (given_.fills.contains(name)) {
      runtime.set_variable(name, sampled(given_, name, type, 0));
      return;
    }
    const ReferenceTensor wanted = to_reference(
        initial_value(name, type, variable.initializer, given_.seed, whole_box(type.shape)));
    if (to_reference(runtime.variable(name)).values != wanted.values)
      note(name, "variable '" + name + "' begins otherwise than in the serial run");
  }

  void one_step(Runtime& runtime, LoadedProgram& program, int64_t step) {
    std::map<std::string, Tensor> inputs;
    std::map<std::string, const Tensor*> pointers;
    ReferenceValues state;
    for (ValueId input : given_.graph.inputs()) {
      const std::string& name = name_of(input);
      const Tensor& tensor =
          inputs.emplace(name, sampled(given_, name, given_.graph.type(input), step)).first->second;
      pointers[name] = &tensor;
      state[name] = to_reference(tensor);
    }
    for (const Variable& variable : given_.graph.variables())
      state[name_of(variable.value)] = to_reference(runtime.variable(name_of(variable.value)));
    capture_.clear();
    const Observer observer = capture_.observer();
    runtime.run(program, pointers, results_, &observer);
    Oracle oracle(given_, std::move(state), rounding_of_all_partials());
    where_ = "step " + std::to_string(step) + ": ";
    compare_registers(oracle);
    compare_results(oracle);
    compare_variables(runtime, oracle);
  }

  /// By value: what the rounding of its partial values may do to it.
  std::map<std::string, double> rounding_of_all_partials() const {
    std::map<std::string, double> rounding;
    if (given_.exact) return rounding;
    for (RegisterIndex index : order_) {
      const Register& reg = tasks_->registers[index];
      if (is_rounded_partial(reg))
        rounding[name_of_partial(given_.graph, reg)] +=
            rounding_of_partials(reg, capture_.assemble(index));
    }
    return rounding;
  }

  std::string op_of(const std::string& value) const {
    const OpId producer = given_.graph.value(*given_.graph.find_value(value)).producer;
    return producer.index < 0 ? "'" + value + "'" : tessera::to_text(given_.graph, producer);
  }

  void compare_registers(Oracle& oracle) {
    for (RegisterIndex index : order_) {
      const Register& reg = tasks_->registers[index];
      if (is_partial_of_micro_batches(reg)) continue;  // its sum is compared
      const std::string name = value_name(given_.graph, reg);
      Capture::Whole whole = capture_.assemble(index);
      const ReferenceTensor wanted = rows_of(oracle.expected(name), reg);
      for (size_t i = 0; i < whole.held.size(); ++i)
        if (!whole.held[i]) whole.tensor.values[i] = wanted.values[i];
      const std::string what = "register '" + reg.name + "' " +
                               tessera::to_text(reg.type, reg.attr) + " of " + op_of(name);
      if (!whole.missing.empty())
        note(name, what + ": " + whole.missing);
      else if (whole.mismatch)
        note(name, what + ": replicas differ: " + tessera::to_text(*whole.mismatch));
      else
        compare(name, what, whole.tensor, wanted, oracle);
      for (const Capture::Whole::Copy& copy : whole.copies)
        compare_element(name, what, reg.type->dtype, copy.at, copy.value, wanted.values[copy.at],
                        oracle);
      if (failure_) return;
    }
  }

  void compare_results(Oracle& oracle) {
    for (const auto& [name, value] : given_.graph.outputs()) {
      if (failure_) return;
      // A result that is partial in each micro-batch is not returned.
      if (const auto found = results_.find(name); found != results_.end())
        compare(name_of(value), "output '" + name + "'", to_reference(found->second),
                oracle.expected(name_of(value)), oracle);
    }
  }

  void compare_variables(const Runtime& runtime, Oracle& oracle) {
    for (const Variable& variable : given_.graph.variables()) {
      if (failure_) return;
      const std::string& name = name_of(variable.value);
      const std::string& next = name_of(variable.next.value_or(variable.value));
      compare(next, "variable '" + name + "' after the step", to_reference(runtime.variable(name)),
              oracle.expected(next), oracle);
    }
  }

  void compare(const std::string& name, const std::string& what, const ReferenceTensor& got,
               const ReferenceTensor& wanted, Oracle& oracle) {
    for (size_t i = 0; i < got.values.size() && !failure_; ++i)
      compare_element(name, what, got.type.dtype, i, got.values[i], wanted.values[i], oracle);
  }

  void compare_element(const std::string& name, const std::string& what, DType dtype, size_t at,
                       double got, double wanted, Oracle& oracle) {
    if (oracle.accepts(name, dtype, got, wanted)) return;
    note(name, what + ": element " + std::to_string(at) + " is " + double_text(got) +
                   ", the serial run has " + double_text(wanted) + ", tolerance " +
                   double_text(oracle.tolerance(name)));
  }

  void note(const std::string& value, const std::string& text) {
    if (!failure_) failure_ = CaseFailure{CaseFailure::Stage::kCompare, where_ + text, value};
  }

  const FuzzCase& given_;
  std::shared_ptr<const TaskGraph> tasks_;
  Capture capture_;
  std::vector<RegisterIndex> order_;
  TensorMap results_;
  std::string where_;
  std::optional<CaseFailure> failure_;
};

/// Runs `work`. An exception becomes a failure of `stage`.
template <typename Work>
std::optional<CaseFailure> guarded(CaseFailure::Stage stage, Work work) {
  const auto failed = [&](const std::string& text, bool out_of_memory = false) {
    return CaseFailure{stage, text, "", out_of_memory};
  };
  try {
    return work();
  } catch (const UserError& error) {
    return failed(error.what(), error.exit_code() == ExitCode::kOutOfMemory);
  } catch (const std::bad_alloc& error) {
    return failed(error.what(), true);
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

/// Every fourth case is compiled again by its explicit shardings, which are written and read.
///   throws  InternalError when the task graph is another one
void check_explicit(const FuzzCase& given, const Graph& graph, const Plan& plan,
                    const CompileOptions& options, const TaskGraph& tasks) {
  if (given.seed % 4 != 1) return;
  Plan by_shardings = with_explicit_shardings(graph, plan, options);
  by_shardings.shardings = parse_shardings(to_document(*by_shardings.shardings), "the case");
  const std::string wanted = to_text(tasks);
  const std::string got = to_text(compile(graph, by_shardings, options).tasks);
  const auto [at, other] = std::mismatch(wanted.begin(), wanted.end(), got.begin(), got.end());
  const auto line = [](const std::string& text, std::string::const_iterator place) {
    const size_t begin = text.rfind('\n', place - text.begin()) + 1;
    return text.substr(begin, text.find('\n', place - text.begin()) - begin);
  };
  ensure(got == wanted, "its explicit shardings give another task graph: '" + line(got, other) +
                            "' for '" + line(wanted, at) + "'");
}

/// Links with which level by level is the cheapest way to exchange.
LinkCosts links_of(const FuzzCase& given) {
  constexpr double kSlowest = 1e9;  // B/s
  LinkCosts links;
  for (const auto& [axis, sizes] : given.levels) {
    double rate = kSlowest;
    for (size_t i = 0; i < sizes.size(); ++i, rate *= 100) {
      links.levels[axis].push_back({axis + "_" + std::to_string(i), sizes[i]});
      links.axes[links.levels[axis].back().name] = {Seconds(1 / rate), rate};
    }
  }
  return links;
}

TaskGraph compile_case(const FuzzCase& given, const CaseFaults& faults, int64_t micro_batches,
                       PipelineKind schedule) {
  Plan plan{.meshes = given.meshes,
            .micro_batches = micro_batches,
            .schedule = schedule,
            // Each algorithm has its turn.
            .all_reduce = static_cast<AllReduceAlgorithm>(given.seed % 4),
            .collective_matmul = given.chunks,
            .bucket = Bytes(given.seed % 3 == 0 ? 1 : 64),
            .halos = faults.halos,
            .marks = given.marks};
  plan.cost.links = links_of(given);
  if (given.seed % 2 == 0)
    plan.prefetch_window = Bytes(given.seed % 5 * 64);  // none, or few at a time
  const CompileOptions options{.dump = {},
                               .rules = faults.rules,
                               .verify_passes = given.seed % 8 == 0,
                               .check_placements = faults.check_placements};
  // Optional passes are left out at times.
  if (given.seed % 5 == 0) plan.disabled_passes.push_back("combine");
  if (given.seed % 7 == 0) plan.disabled_passes.push_back("sum-chains");
  plan.recompute = {Recompute::Kind::kPatterns, {"*"}};  // where its pass runs
  for (const GraphPass& pass : graph_passes())
    if (std::ranges::find(given.passes, pass.name) == given.passes.end())
      plan.disabled_passes.emplace_back(pass.name);
  const Graph graph = faults.rewrite ? faults.rewrite(given.graph) : given.graph;
  TaskGraph tasks = compile(graph, plan, options).tasks;
  check_explicit(given, graph, plan, options, tasks);
  return tasks;
}

bool has_chunks(const TaskGraph& tasks) {
  return std::any_of(tasks.registers.begin(), tasks.registers.end(),
                     [](const Register& reg) { return reg.chunk.dim >= 0; });
}

bool has_combined_exchanges(const TaskGraph& tasks) {
  return std::any_of(tasks.tasks.begin(), tasks.tasks.end(),
                     [](const Task& task) { return task.parts.size() > 1; });
}

constexpr PipelineKind kAnyStages = PipelineKind::kOneForwardOneBackward;

/// Compiles the case in its micro-batches, or in one when that is refused. A refusal is not a
/// failure, because the marks are the user's.
TaskGraph compile_under_1f1b(const FuzzCase& given, const CaseFaults& faults) {
  try {
    return compile_case(given, faults, given.micro_batches, kAnyStages);
  } catch (const UserError& error) {
    if (given.micro_batches == 1 || error.exit_code() != ExitCode::kBadConfig) throw;
    if (faults.on_refusal) faults.on_refusal();
    return compile_case(given, faults, 1, kAnyStages);
  }
}

TaskGraph compile_planned(const FuzzCase& given, const CaseFaults& faults) {
  const Plan plan = faults.planner(given, given.graph).value_or(serial_plan());
  CompileOptions options;
  options.verify_passes = given.seed % 8 == 0;
  return compile(given.graph, plan, options).tasks;
}

TaskGraph compile_case(const FuzzCase& given, const CaseFaults& faults) {
  if (faults.planner) return compile_planned(given, faults);
  if (given.schedule == kAnyStages || given.micro_batches == 1)
    return compile_under_1f1b(given, faults);
  try {
    TaskGraph compiled = compile_case(given, faults, given.micro_batches, given.schedule);
    if (faults.on_scheduled) faults.on_scheduled();
    return compiled;
  } catch (const UserError& error) {
    if (error.exit_code() != ExitCode::kBadConfig) throw;
    return compile_under_1f1b(given, faults);
  }
}

}  // namespace

std::optional<CaseFailure> run_case(const FuzzCase& given, const CaseFaults& faults) {
  std::shared_ptr<const TaskGraph> tasks;
  auto failure = guarded(CaseFailure::Stage::kCompile, [&]() -> std::optional<CaseFailure> {
    TaskGraph compiled = compile_case(given, faults);
    if (faults.on_chunks && has_chunks(compiled)) faults.on_chunks();
    if (faults.on_combined && has_combined_exchanges(compiled)) faults.on_combined();
    if (faults.tamper) {
      faults.tamper(compiled);
      link(compiled);
    }
    tasks = std::make_shared<const TaskGraph>(std::move(compiled));
    return std::nullopt;
  });
  if (failure) return failure;
  return guarded(CaseFailure::Stage::kRun, [&] { return CaseRun(given, tasks).run(); });
}

}  // namespace tessera::fuzz
