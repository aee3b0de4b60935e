#include "simulator/step/internal/critical_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "base/text/text.h"
#include "simulator/step/internal/exchange_names.h"

namespace tessera {
namespace {

constexpr double kNamedShare = 0.05;

/// The numbered layers of names, by the word before the number: "blocks" has 0, 1, 2.
using Layers = std::map<std::string, std::set<int64_t>>;

/// Adds the first layer in `name`: blocks 3 of "blocks.3.up.dot" and of "clip.blocks.3".
void add_layer(const std::string& name, Layers& layers) {
  std::string before;
  for (const std::string& part : split_text(name, '.')) {
    const bool is_number = !part.empty() && part.size() < 10 &&
                           part.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && !before.empty()) {
      layers[before].insert(std::stoll(part));
      return;
    }
    before = part;
  }
}

/// "0..3,7"
std::string ranges_text(const std::set<int64_t>& numbers) {
  std::vector<std::string> ranges;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    auto next = std::next(last);
    while (next != numbers.end() && *next == *last + 1) last = next++;
    ranges.push_back(*first == *last ? std::to_string(*first)
                                     : fmt::format("{}..{}", *first, *last));
    first = next;
  }
  return join(ranges, ",");
}

std::string layers_text(const Layers& layers) {
  std::vector<std::string> list;
  for (const auto& [before, numbers] : layers) {
    const std::string text = ranges_text(numbers);
    list.push_back(numbers.size() == 1 ? before + "." + text : before + ".{" + text + "}");
  }
  return join(list, " ");
}

class Parts {
 public:
  void add(Rank rank, const std::string& what, Seconds time, const std::string& name) {
    Part& part = parts_[{rank, what}];
    part.time += time;
    add_layer(name, part.layers);
  }
  void add_exchange(Rank rank, const TaskGraph& graph, const Task& task, Seconds time) {
    const std::string what = exchange_name(task);
    for (RegisterIndex source : task.inputs)
      add(rank, what, Seconds(0), graph.registers[source].name);
    add(rank, what, time, "");
  }
  std::vector<CriticalPart> list() const {
    std::vector<CriticalPart> list;
    for (const auto& [key, part] : parts_)
      if (part.time.value() > 0)
        list.push_back({key.second, layers_text(part.layers), key.first, part.time});
    std::ranges::stable_sort(list, std::greater(), &CriticalPart::time);
    return list;
  }

 private:
  struct Part {
    Seconds time{0};
    Layers layers;
  };
  std::map<std::pair<Rank, std::string>, Part> parts_;
};

std::string copy_name(const TaskGraph& graph, const Task& task) {
  for (const RegisterIndex reg : {task.inputs.front(), task.outputs.front()})
    if (device_of(graph, graph.registers[reg].mesh) == DeviceKind::kFile)
      return "copies of offloaded state";
  return "copies between device and host";
}

void add_act(const TaskGraph& graph, const CriticalAct& act, Seconds time, ActDemands& acts,
             Parts& parts) {
  const Task& task = graph.tasks[act.task];
  if (task.kind == Task::Kind::kExchange) return parts.add_exchange(act.rank, graph, task, time);
  if (task.kind == Task::Kind::kCopy) return parts.add(act.rank, copy_name(graph, task), time, "");
  const std::vector<StepPrice> prices = acts.steps(act.rank, act.task);
  const double all =
      std::accumulate(prices.begin(), prices.end(), 0.0,
                      [](double sum, const StepPrice& price) { return sum + price.time.value(); });
  const std::string role(to_text(task.role));
  if (all <= 0) return parts.add(act.rank, role, time, task.name);
  for (size_t i = 0; i < prices.size(); ++i)
    parts.add(act.rank, std::string(to_text(prices[i].operation)) + ", " + role,
              Seconds(time.value() * prices[i].time.value() / all), task.steps[i].op);
}

}  // namespace

std::vector<CriticalPart> critical_parts(const TaskGraph& graph, const Simulation& simulation,
                                         ActDemands& acts) {
  Parts parts;
  Seconds reached = simulation.end - simulation.step;
  for (const CriticalAct& act : simulation.critical_path) {
    if (act.end <= reached) continue;
    if (act.begin > reached) parts.add(act.rank, "messages in flight", act.begin - reached, "");
    add_act(graph, act, act.end - std::max(act.begin, reached), acts, parts);
    reached = act.end;
  }
  return parts.list();
}

std::string critical_text(const std::vector<CriticalPart>& parts) {
  double all = 0, named = 0;
  for (const CriticalPart& part : parts) all += part.time.value();
  std::vector<std::string> list;
  for (const CriticalPart& part : parts) {
    if (all <= 0 || part.time.value() < kNamedShare * all) break;
    named += part.time.value();
    list.push_back(fmt::format("{:.0f}% {}{} on rank {}", 100 * part.time.value() / all, part.what,
                               part.layers.empty() ? "" : " of " + part.layers, part.rank));
  }
  if (all > 0 && all - named >= 0.005 * all)
    list.push_back(fmt::format("{:.0f}% others", 100 * (all - named) / all));
  return join(list, ", ");
}

}  // namespace tessera
