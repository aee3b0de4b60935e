// What one rank does in a step, as text.
#include <algorithm>
#include <map>
#include <set>

#include "base/text/text.h"
#include "task_graph/tasks/task_graph.h"

namespace tessera {
namespace {

class RankText {
 public:
  RankText(const TaskGraph& graph, Rank rank) : graph_(graph), rank_(rank) {
    for (const MeshPtr& mesh : graph.meshes) coordinates_.push_back(mesh->coordinate_of(rank));
  }

  std::string run() {
    for (TaskId id : graph_.order) add_task(graph_.tasks.at(id));
    return text_;
  }

 private:
  /// What a rank exchanges with another.
  using ByPeer = std::map<Rank, std::vector<std::string>>;

  Register reg(RegisterIndex index) const { return graph_.registers.at(index); }
  const std::optional<Coordinate>& coordinate(MeshIndex mesh) const {
    return coordinates_.at(mesh);
  }

  /// "y #0: f32[2, 3]": the part of a register that this rank holds.
  std::string part(RegisterIndex index) const {
    const Register held = reg(index);
    return held.name + ": " + to_text(local_type(held, *coordinate(held.mesh)));
  }

  void add_line(const Task& task, const std::string& line) {
    std::string begin = pass_text(task.role, task.pass, task.micro_batch);
    begin.resize(std::max<size_t>(begin.size() + 1, 4), ' ');
    text_ += begin + line + "\n";
  }

  void add_task(const Task& task) {
    add_own_act(task);
    for (RegisterIndex output : task.outputs)
      for (TaskId consumer : reg(output).consumers)
        add_sends(task, graph_.tasks.at(consumer), output);
  }

  void add_own_act(const Task& task) {
    if (!coordinate(task.mesh)) return;
    switch (task.kind) {
      case Task::Kind::kFeed: return add_parts(task, "feed", task.outputs);
      case Task::Kind::kFetch: return add_parts(task, "fetch", task.inputs);
      case Task::Kind::kCompute: return add_steps(task);
      case Task::Kind::kExchange: return add_exchange(task);
      case Task::Kind::kCopy:
        return add_line(task, part(task.outputs[0]) + " = copy(" + reg(task.inputs[0]).name + ")");
    }
  }

  void add_parts(const Task& task, const std::string& verb,
                 std::span<const RegisterIndex> registers) {
    std::vector<std::string> parts;
    for (RegisterIndex index : registers)
      if (coordinate(reg(index).mesh)) parts.push_back(part(index));
    if (!parts.empty()) add_line(task, verb + " " + join(parts, ", "));
  }

  void add_steps(const Task& task) {
    for (const KernelStep& step : task.steps) {
      std::vector<std::string> inputs, outputs;
      for (RegisterIndex index : step.inputs) inputs.push_back(reg(index).name);
      for (RegisterIndex index : step.outputs) outputs.push_back(part(index));
      add_line(task,
               join(outputs, ", ") + " = " + step.call->kernel + "(" + join(inputs, ", ") + ")");
      add_regions(step);
    }
  }

  /// What a While or an If may do, a bar in front.
  void add_regions(const KernelStep& step) {
    if (!step.control) return;
    const bool is_loop = step.control->kind == Control::Kind::kWhile;
    for (size_t i = 0; i < step.control->regions.size(); ++i) {
      text_ += std::string("    ") +
               (is_loop ? (i == 0 ? "while" : "do") : (i == 0 ? "then" : "else")) + "\n";
      for (const std::string& line : split_text(rank_text(step.control->regions[i], rank_), '\n'))
        if (!line.empty()) text_ += "      | " + line + "\n";
    }
  }

  /// The boxes of a part of `exchange` that this rank gives to others.
  ByPeer sent(const Task& exchange, size_t part) const {
    ByPeer boxes;
    for (Rank receiver : exchange.parts.at(part).exchange.to.mesh->ranks())
      if (receiver != rank_)
        for (const RecvRegion& recv_region : recv_regions_of(exchange, part, receiver))
          if (recv_region.sender == rank_) boxes[receiver].push_back(to_text(recv_region.box));
    return boxes;
  }

  /// Those that it takes from others.
  ByPeer received(const Task& exchange, size_t part) const {
    ByPeer boxes;
    for (const RecvRegion& recv_region : recv_regions_of(exchange, part, rank_))
      if (recv_region.sender != rank_)
        boxes[recv_region.sender].push_back(to_text(recv_region.box));
    return boxes;
  }

  std::vector<RecvRegion> recv_regions_of(const Task& exchange, size_t part, Rank receiver) const {
    return recv_regions(reg(exchange.inputs[part]).type->shape, exchange.parts.at(part).exchange,
                        receiver);
  }

  /// Is it one act of a group, to which this rank belongs?
  bool is_collective(const Task& exchange) const {
    return exchange.parts.at(0).exchange.kind != ReshardKind::kMessages &&
           coordinate(exchange.mesh).has_value();
  }

  /// Receivers receive: what a rank gives is there for them as soon as it is made.
  void add_sends(const Task& maker, const Task& exchange, RegisterIndex output) {
    if (exchange.kind != Task::Kind::kExchange || is_collective(exchange)) return;
    const size_t part =
        std::find(exchange.inputs.begin(), exchange.inputs.end(), output) - exchange.inputs.begin();
    for (const auto& [peer, boxes] : sent(exchange, part))
      add_line(maker, "send " + reg(output).name + " " + join(boxes, ", ") + " to " +
                          std::to_string(peer));
  }

  void add_exchange(const Task& task) {
    for (size_t part = 0; part < task.parts.size(); ++part) add_exchange(task, part);
  }

  /// A line for each part: together they are one act.
  void add_exchange(const Task& task, size_t index) {
    const std::string source = reg(task.inputs[index]).name;
    const ByPeer taken = received(task, index);
    if (!is_collective(task)) {
      for (const auto& [peer, boxes] : taken)
        add_line(task,
                 "receive " + source + " " + join(boxes, ", ") + " from " + std::to_string(peer));
      return;
    }
    std::set<Rank> group;
    for (const ByPeer& pieces : {taken, sent(task, index)})
      for (const auto& [peer, boxes] : pieces) group.insert(peer);
    std::vector<std::string> others;
    for (Rank peer : group) others.push_back(std::to_string(peer));
    add_line(task, part(task.outputs[index]) + " = " +
                       std::string(to_text(task.parts.at(index).exchange.kind)) + "(" + source +
                       ")" + (others.empty() ? "" : " with " + join(others, ", ")));
  }

  const TaskGraph& graph_;
  const Rank rank_;
  IndexedVector<MeshIndex, std::optional<Coordinate>>
      coordinates_;  // by mesh; none: the rank is not in it
  std::string text_;
};

}  // namespace

std::string rank_text(const TaskGraph& graph, Rank rank) {
  return RankText(graph, rank).run();
}

std::string rank_order_text(const TaskGraph& graph, Rank rank) {
  const bool is_pipeline =
      std::ranges::any_of(graph.tasks, [](const Task& task) { return task.pass.has_value(); });
  std::vector<std::string> words;
  for (TaskId id : graph.order) {
    const Task task = graph.tasks.at(id);
    const bool is_kernels =
        task.kind == Task::Kind::kCompute && graph.meshes.at(task.mesh)->coordinate_of(rank);
    const bool is_prologue = is_pipeline && !task.pass && task.micro_batch >= 0;
    const std::string word = is_prologue ? "prologue" : pass_text(task);
    if (is_kernels && (words.empty() || words.back() != word)) words.push_back(word);
  }
  return join(words, " ");
}

}  // namespace tessera
