#include "engine/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/random.h"
#include "engine/batch_rule.h"
#include "ops/interpreter.h"

namespace tessera {
namespace {

/// Rounding errors of a run are far below their bounds; the perturbed judge takes the bounds, with random signs. Four times its effect
/// leaves room for signs that fall worse.
constexpr double kSafety = 4;

/// What every rank held in every register right after it was filled.
class Capture {
 public:
  explicit Capture(const TaskGraph& graph) : graph_(graph), processes_(processes(graph)), parts_(processes_.size()) {
    for (auto& registers : parts_) registers.resize(graph.registers.size());
  }

  Observer observer() {
    return [this](Rank rank, RegisterIndex reg, const Coordinate& coordinate, const std::byte* data) {
      const TensorType type = local_type(graph_.registers[static_cast<size_t>(reg)], coordinate);
      auto& bytes = parts_[static_cast<size_t>(index_of(rank))][static_cast<size_t>(reg)];
      bytes.resize(static_cast<size_t>(byte_size(type).value()));
      if (!bytes.empty()) std::memcpy(bytes.data(), data, bytes.size());
    };
  }

  struct Whole {
    ReferenceTensor tensor;
    std::optional<int64_t> torn;                    // index of an element that replicas disagree about
    std::vector<std::pair<size_t, double>> copies;  // elements that windows give to further processes, where those computed them otherwise
    std::vector<int64_t> seen;  // by element: the contribution (partial coordinate) that was added last; -1: windows leave it out
  };

  /// The whole tensor: addends of a partial one are put together.
  Whole assemble(RegisterIndex index) const {
    const Register& reg = graph_.registers[static_cast<size_t>(index)];
    Whole whole{{reg.type, std::vector<double>(static_cast<size_t>(element_count(reg.type.shape)), 0.0)}, std::nullopt, {}, {}};
    whole.seen.assign(whole.tensor.values.size(), -1);
    for (int process = 0; process < reg.attr.mesh->size(); ++process) add_part(reg, index, process, whole);
    return whole;
  }

 private:
  int index_of(Rank rank) const {
    return static_cast<int>(std::lower_bound(processes_.begin(), processes_.end(), rank) - processes_.begin());
  }

  void add_part(const Register& reg, RegisterIndex index, int process, Whole& whole) const {
    const ProcessMesh& mesh = *reg.attr.mesh;
    const Coordinate coordinate = mesh.coordinate_at(process);
    const TensorType type = local_type(reg, coordinate);
    const auto& bytes = parts_[static_cast<size_t>(index_of(mesh.process_at(coordinate)))][static_cast<size_t>(index)];
    ensure(static_cast<int64_t>(bytes.size()) == byte_size(type).value(), "register '" + reg.name + "' was filled on every rank");
    Tensor local(type);
    if (!bytes.empty()) std::memcpy(local.data(), bytes.data(), bytes.size());
    const ReferenceTensor part = to_reference(local);
    int64_t contribution = 0;
    for (const PartialAxis& p : reg.attr.partial) contribution = contribution * mesh.shape()[p.axis] + coordinate[p.axis];
    const std::vector<std::vector<int64_t>> indices = reg.attr.indices(reg.type.shape, coordinate);
    const Dims strides = row_major_strides(reg.type.shape), local_strides = row_major_strides(type.shape);
    for (int64_t i = 0; i < static_cast<int64_t>(part.values.size()); ++i) {
      int64_t at = 0;
      for (int d = 0; d < type.shape.size(); ++d)
        at += indices[static_cast<size_t>(d)][static_cast<size_t>(i / local_strides[d] % type.shape[d])] * strides[d];
      combine(reg, part.values[static_cast<size_t>(i)], contribution, at, whole);
    }
  }

  /// A replica of the first contribution must be equal to it; of later ones only the first replica is added.
  static void combine(const Register& reg, double value, int64_t contribution, int64_t at, Whole& whole) {
    double& element = whole.tensor.values[static_cast<size_t>(at)];
    int64_t& last = whole.seen[static_cast<size_t>(at)];
    if (last < 0) {
      element = value;
      last = contribution;
    } else if (contribution > last) {
      element = reduce(reg.attr.partial.front().reduce, element, value);
      last = contribution;
    } else if (reg.attr.partial.empty() && element != value && !(std::isnan(element) && std::isnan(value))) {
      if (reg.attr.has_windows())
        whole.copies.emplace_back(at, value);
      else if (!whole.torn)
        whole.torn = at;
    }
  }

  static double reduce(ReduceOp op, double a, double b) {
    switch (op) {
      case ReduceOp::kSum: return a + b;
      case ReduceOp::kProd: return a * b;
      case ReduceOp::kMax:
      case ReduceOp::kAny: return std::max(a, b);
      case ReduceOp::kMin:
      case ReduceOp::kAll: return std::min(a, b);
    }
    throw InternalError("unknown reduction");
  }

  const TaskGraph& graph_;
  std::vector<Rank> processes_;
  std::vector<std::vector<std::vector<std::byte>>> parts_;  // by process and register
};

/// Registers in the order in which they are filled.
std::vector<RegisterIndex> in_program_order(const TaskGraph& tasks) {
  std::vector<RegisterIndex> order;
  for (TaskId id : tasks.order) {
    const Task& task = tasks.tasks[static_cast<size_t>(id)];
    if (task.kind == Task::Kind::kCompute)
      for (const KernelStep& step : task.steps) order.insert(order.end(), step.outputs.begin(), step.outputs.end());
    else
      order.insert(order.end(), task.outputs.begin(), task.outputs.end());
  }
  return order;
}

class Verification {
 public:
  Verification(const RunConfig& config, const Plan& plan, std::shared_ptr<const RunData> data, const VerifyOptions& options)
      : options_(options),
        data_(std::move(data)),
        engine_(config, plan, data_, {.runtime = {}, .rules = options.rules, .check_placements = options.check_placements}),
        serial_(config, serial_plan(), data_),
        nudged_(config, serial_plan(), data_),
        sampler_({.samples = data_->train->samples(),
                  .batch = config.train.batch,
                  .parts = 1,
                  .shuffle = config.data.shuffle == Shuffle::kNone ? Shuffle::kNone : Shuffle::kBeforeSplit,
                  .tail = config.data.tail,
                  .seed = config.train.seed}) {}

  VerifyReport run() {
    report_.ok = true;
    compare_initial();
    // After a difference the state is not the serial one any more: there is nothing left to compare.
    for (int64_t step = 0; step < options_.steps && !report_.first_difference; ++step) {
      Batch batch = data_->train->batch(sampler_, step, {0, sampler_.options().batch});
      one_step(step, batch);
      if (options_.on_step) options_.on_step(step);
    }
    report_.ok = report_.ok && !report_.first_difference;
    return report_;
  }

 private:
  void compare_initial() {
    const TensorMap mine = engine_.variables(), theirs = serial_.variables();
    for (const auto& [name, tensor] : mine) {
      const Tensor& other = theirs.at(name);
      if (std::memcmp(tensor.data(), other.data(), static_cast<size_t>(byte_size(tensor.type()).value())) == 0) continue;
      const ReferenceTensor a = to_reference(tensor), b = to_reference(other);
      size_t at = 0;
      while (at + 1 < a.values.size() && a.values[at] == b.values[at]) ++at;
      note({0, "initialization", name, "", static_cast<int64_t>(at), a.values[at], b.values[at], 0});
      return;
    }
  }

  void one_step(int64_t step, const Batch& batch) {
    const bool compare = options_.tensor_steps == 0 || step < options_.tensor_steps;
    if (compare) judge(step, batch);
    Capture capture(engine_.compiled().tasks);
    const Observer observer = capture.observer();
    const double loss = engine_.step(batch, compare ? &observer : nullptr).loss;
    if (compare) compare_tensors(step, capture);
    const double serial_loss = serial_.step(batch).loss;
    const double nudged_loss = nudged_.step(batch).loss;
    nudge();
    // What rounding may have done to the loss up to here: in its own step, and through the state.
    loss_drift_ = std::max(loss_drift_, std::abs(nudged_loss - serial_loss));
    const double tolerance = kSafety * loss_drift_ + loss_tolerance_;
    report_.losses.push_back(loss);
    report_.serial_losses.push_back(serial_loss);
    report_.loss_tolerances.push_back(tolerance);
    if (!(std::abs(loss - serial_loss) <= tolerance)) note({step, "loss", "loss", "", 0, loss, serial_loss, tolerance});
  }

  /// The judge and the perturbed judge, from the state that the plan has now.
  void judge(int64_t step, const Batch& batch) {
    ReferenceValues state;
    for (const auto& [name, tensor] : engine_.variables()) state[name] = to_reference(tensor);
    for (const std::string& name : data_inputs(engine_.graph())) state[name] = to_reference(batch.at(name));
    state[std::string(kStepInput)] = to_reference(Tensor::scalar(static_cast<int32_t>(step)));
    state[std::string(kLearningRateInput)] =
        to_reference(Tensor::scalar(static_cast<float>(learning_rate(engine_.config().optimizer.schedule, step))));
    expected_ = interpret(engine_.graph(), state);
    changes_.clear();
    perturbed_ = interpret(engine_.graph(), state, {.perturb = static_cast<uint64_t>(step) + 1, .tolerances = &changes_});
    for (const auto& [name, tensor] : expected_) changes_[name] += largest_change(tensor, perturbed_.at(name));
    loss_tolerance_ = kSafety * changes_.at(engine_.graph().value(engine_.graph().output("loss")).name);
  }

  /// Name of the serial value that a register holds: copies add a space and what they became.
  std::string value_name(const Register& reg) const {
    const Graph& graph = engine_.graph();
    const std::string name = reg.name.substr(0, reg.name.find(' '));
    if (graph.find_value(name)) return name;
    throw InternalError("register '" + reg.name + "' holds no value of the graph");
  }

  void compare_tensors(int64_t step, const Capture& capture) {
    const TaskGraph& tasks = engine_.compiled().tasks;
    report_.tensors = report_.exact_tensors = 0;
    for (RegisterIndex index : in_program_order(tasks)) {
      const Register& reg = tasks.registers[static_cast<size_t>(index)];
      if (reg.micro_batch.index >= 0 && reg.micro_batch.dim < 0) continue;  // an addend: its sum is compared
      const std::string name = value_name(reg);
      const Capture::Whole whole = capture.assemble(index);
      const ReferenceTensor wanted = part_of(expected_.at(name), reg);
      const double tolerance = kSafety * changes_.at(name);
      ++report_.tensors;
      if (tolerance == 0) ++report_.exact_tensors;
      if (whole.torn) {
        const auto at = static_cast<size_t>(*whole.torn);
        note({step, op_of(name), reg.name, to_text(reg.type, reg.attr) + ", replicas differ", *whole.torn, whole.tensor.values[at],
              wanted.values[at], 0});
        continue;
      }
      compare_elements(step, name, reg, whole, wanted, tolerance);
    }
  }

  /// What a register holds of a whole tensor: the rows of its micro-batch.
  static ReferenceTensor part_of(const ReferenceTensor& whole, const Register& reg) {
    if (reg.micro_batch.dim < 0) return whole;
    ReferenceTensor part{reg.type, {}};
    const Dims strides = row_major_strides(whole.type.shape), part_strides = row_major_strides(reg.type.shape);
    const int64_t count = element_count(reg.type.shape);
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = reg.micro_batch.begin * strides[reg.micro_batch.dim];
      for (int d = 0; d < reg.type.shape.size(); ++d) at += i / part_strides[d] % reg.type.shape[d] * strides[d];
      part.values.push_back(whole.values[static_cast<size_t>(at)]);
    }
    return part;
  }

  void compare_elements(int64_t step, const std::string& name, const Register& reg, const Capture::Whole& got,
                        const ReferenceTensor& wanted, double tolerance) {
    for (size_t i = 0; i < got.tensor.values.size(); ++i)
      if (got.seen[i] >= 0 && !compare_element(step, name, reg, i, got.tensor.values[i], wanted, tolerance)) return;
    for (const auto& [at, value] : got.copies)
      if (!compare_element(step, name, reg, at, value, wanted, tolerance)) return;
  }

  bool compare_element(int64_t step, const std::string& name, const Register& reg, size_t at, double value, const ReferenceTensor& wanted,
                       double tolerance) {
    const bool is_rounded = tolerance == 0 && reg.type.dtype == DType::kF32;
    const double serial = is_rounded ? static_cast<double>(static_cast<float>(wanted.values[at])) : wanted.values[at];
    if (value == serial) return true;
    const double error = std::abs(value - serial);
    report_.max_error = std::max(report_.max_error, tolerance > 0 ? error / tolerance : std::numeric_limits<double>::infinity());
    if (tolerance > 0 && error <= tolerance) return true;
    note({step, op_of(name), reg.name, to_text(reg.type, reg.attr), static_cast<int64_t>(at), value, serial, tolerance});
    return false;
  }

  std::string op_of(const std::string& value) const {
    const Graph& graph = engine_.graph();
    const OpId producer = graph.value(*graph.find_value(value)).producer;
    return producer.index < 0 ? value : graph.op(producer).name;
  }

  /// Moves the state of the nudged serial run as rounding may move it in this step: by what the perturbation did to each element.
  void nudge() {
    for (const Variable& variable : engine_.graph().variables()) {
      if (!variable.next) continue;
      const std::string& next = engine_.graph().value(*variable.next).name;
      const std::string& name = engine_.graph().value(variable.value).name;
      const auto& plain = expected_.at(next).values;
      const auto& moved = perturbed_.at(next).values;
      Tensor value = nudged_.runtime().variable(name);
      const auto elements = value.values<float>();
      for (size_t i = 0; i < elements.size(); ++i) elements[i] += static_cast<float>(moved[i] - plain[i]);
      nudged_.runtime().set_variable(name, value);
    }
  }

  void note(Difference difference) {
    if (!report_.first_difference) report_.first_difference = std::move(difference);
  }

  const VerifyOptions& options_;
  std::shared_ptr<const RunData> data_;
  Engine engine_, serial_, nudged_;
  Sampler sampler_;
  VerifyReport report_;
  ReferenceValues expected_, perturbed_;   // of the judge, in the last step that was compared
  std::map<std::string, double> changes_;  // by value: what the perturbation of all ops did to it, and what its own may do
  double loss_tolerance_ = 0;
  double loss_drift_ = 0;
};

}  // namespace

VerifyReport verify_plan(const RunConfig& config, const Plan& plan, std::shared_ptr<const RunData> data, const VerifyOptions& options) {
  return Verification(resolved_for(config, plan), plan, std::move(data), options).run();
}

}  // namespace tessera
