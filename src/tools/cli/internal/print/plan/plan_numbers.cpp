#include "tools/cli/internal/print/plan/plan_numbers.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/lower/redundant_work.h"

namespace tessera {
namespace {

std::vector<MeshMemory> memory_of(const Compiled& compiled) {
  std::vector<MeshMemory> list;
  for (MeshIndex i : compiled.arenas.indices())
    list.push_back({compiled.mesh_names[i], Bytes(0), Bytes(0), compiled.arenas[i].size});
  std::map<std::string, MeshIndex> in_file;  // by offloaded variable
  for (const TaskVariable& variable : compiled.tasks.variables)
    if (const MeshIndex mesh = compiled.tasks.registers[variable.value].mesh;
        device_of(compiled.tasks, mesh) == DeviceKind::kFile)
      in_file[variable.name] = mesh;
  for (const Variable& variable : compiled.graph.variables()) {
    const StageIndex stage(compiled.sharded.stages.values[variable.value.index]);
    const auto resting = in_file.find(compiled.graph.value(variable.value).name);
    MeshMemory& memory = list[resting == in_file.end() ? compiled.mesh_of_stage[stage].value()
                                                       : resting->second.value()];
    (variable.trainable ? memory.parameters : memory.state) +=
        facts_of(compiled.graph, compiled.sharded, variable.value).bytes;
  }
  return list;
}

std::vector<NamedBytes> parameters_of(const Compiled& compiled) {
  std::vector<NamedBytes> list;
  for (const Variable& variable : compiled.graph.variables()) {
    if (!variable.trainable) continue;
    const ValueFacts facts = facts_of(compiled.graph, compiled.sharded, variable.value);
    const StageIndex stage(compiled.sharded.stages.values[variable.value.index]);
    list.push_back({facts.name, facts.placement, "",
                    compiled.mesh_names[compiled.mesh_of_stage[stage]], 1, facts.bytes});
  }
  return list;
}

/// The name of a register without the number of its micro-batch: "y [@dp, *]" of "y [@dp, *] #2".
std::string name_without_micro_batch(const Register& reg) {
  const std::string name = reg.name.text();
  return reg.micro_batch.index < 0 ? name : name.substr(0, name.rfind(" #"));
}

/// Adds what has the same name, detail and mesh to one element, at the place of the first.
class NamedSums {
 public:
  void add(NamedBytes item) {
    const auto [at, is_new] = place_.try_emplace(
        item.name + "\1" + item.detail + "\1" + item.role + "\1" + item.mesh, list_.size());
    if (is_new) {
      list_.push_back(std::move(item));
      return;
    }
    list_[at->second].count += item.count;
    list_[at->second].bytes += item.bytes;
  }
  std::vector<NamedBytes> take() { return std::move(list_); }

 private:
  std::vector<NamedBytes> list_;
  std::map<std::string, size_t> place_;
};

std::vector<NamedBytes> activations_of(const Compiled& compiled) {
  NamedSums sums;
  for (const Register& reg : compiled.tasks.registers)
    if (reg.storage == Register::Storage::kArena)
      sums.add({name_without_micro_batch(reg), "", "", compiled.mesh_names[reg.mesh], 1,
                total_size(reg)});
  return sums.take();
}

std::vector<NamedBytes> exchanges_of(const Compiled& compiled,
                                     const std::vector<CommunicationFacts>& communications) {
  NamedSums sums;
  for (const CommunicationFacts& facts : communications)
    sums.add({facts.value, kind_text(facts), std::string(to_text(facts.role)),
              compiled.mesh_names[facts.mesh], 1, facts.bytes});
  return sums.take();
}

AxisTraffic traffic_of(const std::vector<CommunicationFacts>& communications,
                       const std::optional<std::string>& axes) {
  AxisTraffic traffic{axes.value_or("")};
  std::set<int64_t> exchanges;
  for (const CommunicationFacts& facts : communications) {
    if (!facts.is_sent() || (axes && facts.axes != *axes)) continue;
    exchanges.insert(facts.exchange);
    ++traffic.tensors;
    traffic.bytes += facts.bytes;
  }
  traffic.exchanges = std::ssize(exchanges);
  return traffic;
}

std::vector<AxisTraffic> traffic_by_axes(const std::vector<CommunicationFacts>& communications) {
  std::set<std::string> axes;
  for (const CommunicationFacts& facts : communications) axes.insert(facts.axes);
  std::vector<AxisTraffic> list;
  for (const std::string& name : axes) list.push_back(traffic_of(communications, name));
  std::ranges::stable_sort(list, std::ranges::greater{}, &AxisTraffic::bytes);
  return list;
}

}  // namespace

std::string axes_text(const AxisTraffic& traffic) {
  return traffic.axes.empty() ? "between meshes" : traffic.axes;
}

const MeshMemory& PlanNumbers::largest_memory() const {
  return *std::ranges::max_element(memory, {}, &MeshMemory::all);
}

PlanNumbers numbers_of(const Compiled& compiled, const std::string& title) {
  const std::vector<CommunicationFacts> communications = communications_of(compiled.tasks);
  PlanNumbers numbers;
  numbers.title = title;
  numbers.memory = memory_of(compiled);
  numbers.sent = traffic_by_axes(communications);
  numbers.all_sent = traffic_of(communications, std::nullopt);
  if (compiled.pipeline) numbers.pipeline = worth_of(*compiled.pipeline);
  numbers.parameters = parameters_of(compiled);
  numbers.activations = activations_of(compiled);
  numbers.exchanges = exchanges_of(compiled, communications);
  numbers.notes = notes_of(compiled);
  return numbers;
}

Document seconds_or_null(const std::optional<Seconds>& time) {
  return time ? Document(time->value()) : Document();
}

}  // namespace tessera
