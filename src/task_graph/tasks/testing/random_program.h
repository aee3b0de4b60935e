// Random programs of integers and what they must give, for tests: tasks and exchanges on random
// meshes in a random order, registers with random numbers of slots. The expected values come from
// plain loops over whole tensors, which know no placements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor/tensor.h"
#include "task_graph/tasks/testing/hand_made.h"

namespace tessera::random_programs {

/// How large the programs are.
struct Size {
  int ranks = 6;  // 0 up to, of which meshes are sampled
  int meshes = 3;
  int extent = 4;  // of each of one or two axes
  int works = 14;  // things to do: an input, a computation, a reshard, a variable
};

class RandomProgram {
 public:
  RandomProgram(unsigned seed, Size size) : dice_(seed), size_(size) {
    const int meshes = roll(1, size.meshes);
    for (int i = 0; i < meshes; ++i) meshes_.push_back(random_mesh());
    made_ = std::make_unique<HandMade>(meshes_[0]);
    add_input();
    for (int i = 0; i < size.works; ++i) add_work();
    update_variables();
    add_results();
    TaskGraph graph = made_->finish();
    if (roll(0, 2) == 0) put_on_devices(graph);
    link(graph);
    shuffle_order(graph);
    set_issue_points(graph);
    give_slots(graph);
    graph_ = std::make_shared<const TaskGraph>(std::move(graph));
  }

  const std::shared_ptr<const TaskGraph>& graph() const { return graph_; }

  /// Inputs of a step, by name.
  std::map<std::string, Tensor> inputs(int64_t step) const {
    std::map<std::string, Tensor> tensors;
    for (const Value& value : values_)
      if (value.kind == Value::kInput) tensors[value.name] = drawn(value, step);
    return tensors;
  }

  /// The results of the next step on `inputs`, by name; variables go on.
  std::map<std::string, std::vector<int32_t>> expect(const std::map<std::string, Tensor>& inputs) {
    std::vector<std::vector<int32_t>> held;
    for (Value& value : values_) held.push_back(evaluate(value, inputs, held));
    for (const Update& update : updates_) values_[update.variable].state = held[update.next];
    std::map<std::string, std::vector<int32_t>> results;
    for (const auto& [name, value] : results_) results[name] = held[value];
    return results;
  }

 private:
  struct Value {
    enum Kind { kInput, kVariable, kSame, kSum, kLarger, kUpdate } kind = kInput;
    std::string name;
    RegisterIndex reg;
    DistType type;
    size_t a = 0, b = 0;         // operands
    std::vector<int32_t> state;  // of a variable
  };
  struct Update {
    size_t variable = 0, next = 0;
  };

  int roll(int low, int high) {
    return low + static_cast<int>(dice_() % static_cast<unsigned>(high - low + 1));
  }
  size_t pick(size_t count) { return dice_() % count; }

  MeshPtr random_mesh() {
    std::vector<Rank> ranks(static_cast<size_t>(size_.ranks));
    for (size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<Rank>(i);
    std::shuffle(ranks.begin(), ranks.end(), dice_);
    Shape shape{roll(1, std::min(size_.extent, size_.ranks))};
    std::vector<std::string> axes{"x"};
    if (const int largest = size_.ranks / static_cast<int>(shape[0]); largest > 1 && roll(0, 1)) {
      shape.push_back(roll(1, std::min(size_.extent, largest)));
      axes.push_back("y");
    }
    ranks.resize(element_count(shape));
    return std::make_shared<const Mesh>(shape, axes, ranks);
  }

  DistAttr random_attr(const MeshPtr& mesh, int rank, bool may_be_partial) {
    std::vector<Placement> placements;
    for (int axis = 0; axis < mesh->axis_count(); ++axis) {
      const int what = roll(0, may_be_partial ? 4 : 3);
      placements.push_back(what == 4 ? Partial()
                           : what == 0 || rank == 0
                               ? Replicate()
                               : Shard(static_cast<int>(pick(static_cast<size_t>(rank)))));
    }
    return from_placements(mesh, rank, placements);
  }

  DistType random_type(const Shape& shape, bool may_be_partial) {
    const MeshPtr mesh = meshes_[pick(meshes_.size())];
    made_->place_on(mesh);
    return {{DType::kI32, shape}, random_attr(mesh, shape.size(), may_be_partial)};
  }

  static std::string text(const DistType& type) { return to_text(type.type, type.attr); }
  std::string next_name(const std::string& what) { return what + std::to_string(values_.size()); }

  void add_input() {
    Shape shape{roll(1, 9)};
    if (roll(0, 1)) shape.push_back(roll(1, 5));
    Value value{Value::kInput, next_name("x"), {}, random_type(shape, false), 0, 0, {}};
    value.reg = made_->input(value.name, text(value.type));
    values_.push_back(std::move(value));
  }

  void add_variable() {
    const Shape shape = values_[pick(values_.size())].type.type.shape;
    Value value{Value::kVariable, next_name("v"), {}, random_type(shape, false), 0, 0, {}};
    value.reg = made_->variable(value.name, text(value.type), Initializer::constant(3));
    value.state.assign(element_count(shape), 3);
    values_.push_back(std::move(value));
  }

  void add_work() {
    const int what = roll(0, 9);
    if (what == 0) add_input();
    if (what == 1) add_variable();
    if (what >= 2 && what <= 4)
      reshard(pick(values_.size()),
              random_type(values_[pick(values_.size())].type.type.shape, true));
    if (what == 5) reshard_together();
    if (what >= 6) add_binary();
  }

  /// Two values of one mesh as the parts of one exchange, where both are of one kind.
  void reshard_together() {
    const size_t a = pick(values_.size()), b = pick(values_.size());
    const auto at = [&](size_t value) -> const DistType& { return values_[value].type; };
    if (values_[a].reg == values_[b].reg || at(a).attr.mesh != at(b).attr.mesh) return;
    const DistType to_a = random_type(at(a).type.shape, false);
    const DistType to_b{at(b).type, random_attr(to_a.attr.mesh, at(b).type.shape.size(), false)};
    if (classify(to_a.type.shape, at(a).attr, to_a.attr) !=
        classify(to_b.type.shape, at(b).attr, to_b.attr))
      return;
    made_->place_on(to_a.attr.mesh);
    const std::vector<RegisterIndex> made =
        made_->exchange(next_name("e"), {values_[a].reg, values_[b].reg}, {text(to_a), text(to_b)});
    for (const size_t part : {size_t{0}, size_t{1}})
      values_.push_back({Value::kSame,
                         next_name("e"),
                         made[part],
                         part == 0 ? to_a : to_b,
                         part == 0 ? a : b,
                         0,
                         {}});
  }

  /// returns  the place of the new value; of a shape that does not fit: of `from`
  size_t reshard(size_t from, DistType wanted) {
    if (wanted.type.shape != values_[from].type.type.shape)
      wanted = random_type(values_[from].type.type.shape, true);
    if (wanted.attr == values_[from].type.attr) return from;
    made_->place_on(wanted.attr.mesh);
    Value value{Value::kSame, next_name("r"), {}, wanted, from, 0, {}};
    value.reg = made_->reshard(value.name, values_[from].reg, text(wanted));
    values_.push_back(std::move(value));
    return values_.size() - 1;
  }

  void add_binary() {
    const size_t a = pick(values_.size());
    std::vector<size_t> alike;
    for (size_t b = 0; b < values_.size(); ++b)
      if (values_[b].type.type.shape == values_[a].type.type.shape) alike.push_back(b);
    const size_t b = reshard(alike[pick(alike.size())], values_[a].type);
    const bool larger = values_[a].type.attr.partial.empty() && roll(0, 2) == 0;
    made_->place_on(values_[a].type.attr.mesh);
    Value value{
        larger ? Value::kLarger : Value::kSum, next_name("c"), {}, values_[a].type, a, b, {}};
    std::vector<RegisterIndex> operands{values_[a].reg, values_[b].reg};
    value.reg = made_->compute(value.name, {larger ? "binary.max" : "binary.add", {}, {}, ""},
                               std::move(operands), text(value.type));
    values_.push_back(std::move(value));
  }

  /// By something made: two variables that are updated by each other would wait for each other's
  /// readers.
  void update_variables() {
    const size_t count = values_.size();
    for (size_t v = 0; v < count; ++v) {
      if (values_[v].kind != Value::kVariable || roll(0, 3) == 0) continue;
      std::vector<size_t> alike;
      for (size_t b = 0; b < count; ++b)
        if (values_[b].kind != Value::kVariable &&
            values_[b].type.type.shape == values_[v].type.type.shape)
          alike.push_back(b);
      if (alike.empty()) continue;
      const size_t by = reshard(alike[pick(alike.size())], values_[v].type);
      made_->place_on(values_[v].type.attr.mesh);
      Value next{Value::kUpdate, next_name("u"), {}, values_[v].type, v, by, {}};
      next.reg = made_->update(next.name, {"binary.add", {}, {}, ""},
                               {values_[v].reg, values_[by].reg}, values_[v].reg);
      values_.push_back(std::move(next));
      updates_.push_back({v, values_.size() - 1});
    }
  }

  void add_results() {
    const size_t count = values_.size();
    for (size_t i = 0; i < count; ++i) {
      // A fetch that takes a variable and its update would wait for itself.
      if (values_[i].kind == Value::kVariable || (i + 1 != count && roll(0, 2) != 0)) continue;
      const size_t whole = values_[i].type.attr.partial.empty()
                               ? i
                               : reshard(i, random_type(values_[i].type.type.shape, false));
      made_->result(values_[i].name, values_[whole].reg);
      results_.emplace_back(values_[i].name, whole);
    }
  }

  /// Some computations go to fake devices: their operands are copied there, and what they make is
  /// copied back.
  void put_on_devices(TaskGraph& graph) {
    const auto tasks = graph.tasks.indices();
    const auto meshes = graph.meshes.indices();
    const int count = graph.meshes.size();
    graph.devices.assign(count, DeviceKind::kHost);
    for (MeshIndex mesh : meshes) {
      graph.meshes.push_back(MeshPtr(graph.meshes[mesh]));
      graph.arenas.emplace_back(0);
      graph.devices.push_back(DeviceKind::kFake);
    }
    for (TaskId task : tasks)
      if (graph.tasks[task].kind == Task::Kind::kCompute && graph.tasks[task].overwrites.empty() &&
          roll(0, 1))
        put_on_device(graph, task, count);
  }

  /// `host_meshes`: the mesh of the devices is n after that of their hosts.
  static void put_on_device(TaskGraph& graph, TaskId id, int host_meshes) {
    const MeshIndex mesh = graph.tasks[id].mesh + host_meshes;
    using Forms = std::vector<RegisterFormIndex>;
    // The twin of a register on the device.
    const auto add_twin = [&](RegisterFormIndex host) {
      RegisterForm twin = graph.registers.forms()[host];
      twin.name += " on the device";
      twin.mesh = mesh;
      twin.storage = Register::Storage::kArena;
      twin.variable = -1;
      const RegisterIndex made = graph.registers.push_back(std::move(twin));
      return graph.registers.numbering().form_of(made);
    };
    const auto add_copy = [&](RegisterFormIndex from, RegisterFormIndex to) {
      graph.tasks.push_back({.name = "copy " + graph.registers.forms()[from].name,
                             .kind = Task::Kind::kCopy,
                             .mesh = mesh,
                             .inputs = {from},
                             .outputs = {to}});
    };
    std::map<RegisterFormIndex, RegisterFormIndex> twins;
    const auto replace = [&](Forms& list, bool is_read) {
      for (RegisterFormIndex& reg : list) {
        const auto [twin, is_new] = twins.try_emplace(reg);
        if (is_new) {
          twin->second = add_twin(reg);
          is_read ? add_copy(reg, twin->second) : add_copy(twin->second, reg);
        }
        reg = twin->second;
      }
    };
    KernelForm kernel = graph.tasks.form_of(id).steps[0];
    replace(kernel.inputs, true);
    replace(kernel.outputs, false);
    TaskForm& task = graph.tasks.form(id);
    task.mesh = mesh;
    task.steps[0] = std::move(kernel);
  }

  /// Any order in which registers are filled before they are read, and variables are written over
  /// after they were read.
  void shuffle_order(TaskGraph& graph) {
    const int count = graph.tasks.size();
    IndexedVector<TaskId, std::vector<TaskId>> later(count);
    IndexedVector<TaskId, int> waits(count, 0);
    const auto add = [&](TaskId before, TaskId after) {
      if (before == after) return;
      later[before].push_back(after);
      ++waits[after];
    };
    for (const Register& reg : graph.registers)
      for (TaskId consumer : reg.consumers) add(reg.producer, consumer);
    for (TaskId t : graph.tasks.indices())
      for (RegisterIndex reg : graph.tasks[t].overwrites)
        for (TaskId reader : graph.registers[reg].consumers) add(reader, t);
    std::vector<TaskId> ready;
    for (TaskId t : graph.tasks.indices())
      if (waits[t] == 0) ready.push_back(t);
    graph.order.clear();
    while (!ready.empty()) {
      std::swap(ready[pick(ready.size())], ready.back());
      const TaskId task = ready.back();
      ready.pop_back();
      graph.order.push_back(task);
      for (TaskId next : later[task])
        if (--waits[next] == 0) ready.push_back(next);
    }
  }

  /// No registers share bytes here, so that any earlier task may be the issue point.
  void set_issue_points(TaskGraph& graph) {
    for (size_t place = 1; place < graph.order.size(); ++place) {
      const Task task = graph.tasks[graph.order[place]];
      const bool fills_variable =
          std::any_of(task.outputs.begin(), task.outputs.end(),
                      [&](RegisterIndex reg) { return graph.registers[reg].variable >= 0; });
      if (task.kind == Task::Kind::kExchange && !fills_variable && roll(0, 2) != 0)
        graph.tasks.instance(graph.order[place]).issue_after = graph.order[pick(place)];
    }
  }

  void give_slots(TaskGraph& graph) {
    for (Bytes& arena : graph.arenas) arena = Bytes(0);
    for (RegisterIndex index : graph.registers.indices()) {
      RegisterForm& reg = graph.registers.form(index);
      if (reg.storage != Register::Storage::kArena) continue;
      reg.slots = roll(1, 3);
      Bytes& arena = graph.arenas[reg.mesh];
      graph.registers.offset(index) = arena.value();
      arena += Bytes(slot_stride(reg).value() * reg.slots);
    }
  }

  static Tensor drawn(const Value& value, int64_t step) {
    Tensor tensor(value.type.type);
    std::mt19937 dice(
        static_cast<unsigned>(std::hash<std::string>{}(value.name) + static_cast<size_t>(step)));
    for (int32_t& element : tensor.values<int32_t>())
      element = static_cast<int32_t>(dice() % 2000) - 1000;
    return tensor;
  }

  static std::vector<int32_t> evaluate(const Value& value,
                                       const std::map<std::string, Tensor>& inputs,
                                       const std::vector<std::vector<int32_t>>& held) {
    if (value.kind == Value::kInput) {
      const auto values = inputs.at(value.name).values<int32_t>();
      return {values.begin(), values.end()};
    }
    if (value.kind == Value::kVariable) return value.state;
    std::vector<int32_t> result = held[value.a];
    if (value.kind == Value::kSame) return result;
    for (size_t i = 0; i < result.size(); ++i) {
      const int32_t other = held[value.b][i];
      result[i] = value.kind == Value::kLarger
                      ? std::max(result[i], other)
                      : static_cast<int32_t>(static_cast<uint32_t>(result[i]) +
                                             static_cast<uint32_t>(other));
    }
    return result;
  }

  std::mt19937 dice_;
  Size size_;
  std::vector<MeshPtr> meshes_;
  std::unique_ptr<HandMade> made_;
  std::vector<Value> values_;
  std::vector<Update> updates_;
  std::vector<std::pair<std::string, size_t>> results_;
  std::shared_ptr<const TaskGraph> graph_;
};

}  // namespace tessera::random_programs
