#include "cluster/cluster/internal/import/paddle.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text/text.h"
#include "cluster/cluster/internal/presets.h"

namespace tessera {
namespace {

constexpr double kMaxNumber = 1e9;  // GB, GB/s, GFLOPS and ids
constexpr size_t kMaxTypes = 100;

/// A value of the file with its path, for messages.
struct Value {
  const Document* document = nullptr;  // nullptr: absent
  std::string path;

  Value at(const std::string& key) const {
    return {document && document->is_table() ? document->find(key) : nullptr,
            path.empty() ? key : path + "." + key};
  }
};

std::string letters_of(std::string_view text) {
  std::string letters;
  for (char c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) letters += c;
  }
  return letters;
}

/// The preset whose name without its memory is a part of the model; of several, that of the nearest
/// memory. nullptr for an unknown model.
const DevicePreset* preset_of_model(const std::string& model, double memory_gb) {
  const DevicePreset* best = nullptr;
  const auto distance = [&](const DevicePreset& preset) {
    return std::abs(preset.memory_gb - memory_gb);
  };
  for (const DevicePreset& preset : presets()) {
    std::string_view base = preset.name;
    if (preset.name != "titan-rtx") base = base.substr(0, base.find('-'));
    if (preset.kind == HardwareKind::kCpu ||
        letters_of(model).find(letters_of(base)) == std::string::npos)
      continue;
    if (!best || distance(preset) < distance(*best)) best = &preset;
  }
  return best;
}

class PaddleReader {
 public:
  explicit PaddleReader(std::string file) : file_(std::move(file)) {}

  ClusterDescription read(const Document& document) {
    const Value root{&document, ""};
    description_.name = "";
    const std::vector<Value> machines = list(root.at("machines"));
    if (machines.empty())
      refuse("'machines' is empty", "a cluster has machines", "describe at least one machine");
    for (const Value& machine : machines) read_devices(machine);
    for (const Value& machine : machines)
      for (const Value& link : list(machine.at("links"), true)) read_link(link);
    check_directions();
    const Value alpha = root.at("alpha_latency");
    add_machines(latency(alpha, "intra", 2e-6));
    if (machines.size() > 1) add_network(latency(alpha, "inter", 5e-6));
    return std::move(description_);
  }

 private:
  struct Node {
    int machine = 0;
    std::string kind, type;  // "GPU", "CPU", "NIC"; the name of its type
    int number = -1;         // in its machine, of a device that plans use
  };
  struct Link {
    double bandwidth = 0;
    std::string type, path;
  };
  struct InnerLink {
    int a = 0, b = 0;  // devices by their number in the machine
    const Link* link = nullptr;
  };
  struct Machine {
    std::string name, path;
    std::vector<int64_t> devices;  // their ids
    double nic_width = 0;          // the slowest one, in GB/s
    int nics = 0;
    std::vector<InnerLink> links = {};
  };

  [[noreturn]] void refuse(const std::string& what, const std::string& why,
                           const std::string& fix) const {
    throw UserError(file_ + ": " + what, why, fix, ExitCode::kBadConfig);
  }

  // ---- values ----

  std::vector<Value> list(const Value& value, bool may_be_absent = false) const {
    std::vector<Value> items;
    if (!value.document && may_be_absent) return items;
    if (!value.document || !value.document->is_list())
      refuse(value.path + " is " + (value.document ? kind_of(*value.document) : "absent"),
             "it is a list of tables", "write the file as Paddle does");
    for (size_t i = 0; i < value.document->as_list().size(); ++i)
      items.push_back({&value.document->as_list()[i], value.path + "[" + std::to_string(i) + "]"});
    return items;
  }

  std::string text(const Value& value, const std::string& fallback) const {
    if (!value.document) return fallback;
    if (!value.document->is_string())
      refuse(value.path + " is " + to_json(*value.document), "it is a text",
             "write it in quotation marks");
    return std::string(trim(value.document->as_string()));
  }

  static std::optional<double> parsed(const Document& document) {
    if (document.is_number()) return document.as_double();
    if (!document.is_string()) return std::nullopt;
    const std::string_view text = trim(document.as_string());
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                    : std::nullopt;
  }

  /// nullopt when it is absent.
  std::optional<double> positive(const Value& value, const std::string& what) const {
    if (!value.document) return std::nullopt;
    const std::optional<double> number = parsed(*value.document);
    if (!number || !(*number > 0) || *number > kMaxNumber)
      refuse(value.path + " is " + to_json(*value.document),
             what + " is a number above 0 and at most 1e9", "correct the value");
    return number;
  }

  int64_t id(const Value& value) const {
    const std::optional<double> number =
        value.document ? parsed(*value.document) : std::optional<double>();
    if (!number || *number < 0 || *number > kMaxNumber || *number != std::floor(*number))
      refuse(value.path + " is " + (value.document ? to_json(*value.document) : "absent"),
             "devices are numbered from 0 in the whole cluster", "correct the value");
    return static_cast<int64_t>(*number);
  }

  // ---- devices ----

  void read_devices(const Value& value) {
    Machine machine{text(value.at("hostname"), ""), value.path, {}};
    if (machine.name.empty()) machine.name = text(value.at("addr"), "");
    if (machine.name.empty()) machine.name = "n" + std::to_string(machines_.size());
    std::ranges::replace_if(
        machine.name, [](char c) { return std::string_view("/[],").find(c) != std::string::npos; },
        '_');
    if (const auto [known, is_new] = names_.emplace(machine.name, value.path); !is_new)
      refuse(value.path + " is called '" + machine.name + "'",
             known->second + " has the same name, and links and ranks name machines",
             "give every machine a 'hostname' of its own");
    for (const Value& device : list(value.at("devices"))) read_device(device, machine);
    machines_.push_back(std::move(machine));
  }

  void read_device(const Value& value, Machine& machine) {
    const int64_t number = id(value.at("global_id"));
    Node node{static_cast<int>(machines_.size()), text(value.at("type"), "GPU"), ""};
    if (const auto [known, is_new] = paths_.emplace(number, value.path); !is_new)
      refuse(value.path + ".global_id is " + std::to_string(number),
             known->second + " has the same number",
             "number the devices of all machines from 0, each once");
    if (node.kind == "NIC") {
      const double width = positive(value.at("width"), "the GB/s of a network card").value_or(0);
      if (width > 0)
        machine.nic_width = machine.nics == 0 ? width : std::min(machine.nic_width, width);
      machine.nics += width > 0;
    } else {
      node.type = type_of(value, node.kind);
      machine.devices.push_back(number);
    }
    has_accelerators_ = has_accelerators_ || (node.kind != "NIC" && node.kind != "CPU");
    nodes_.emplace(number, std::move(node));
  }

  /// The name of the type of a device, which is added when it is new.
  std::string type_of(const Value& value, const std::string& kind) {
    const std::string model = text(value.at("model"), kind);
    const std::optional<double> memory = positive(value.at("memory"), "a memory in GB");
    const std::optional<double> rate = positive(value.at("sp_gflops"), "a rate in GFLOPS");
    const DevicePreset* known = preset_of_model(model, memory.value_or(0));
    if (!memory && !known)
      refuse(value.path + " has no memory", "no preset has the model '" + model + "'",
             "write \"memory\": 32, in GB");
    DeviceType type = device_type(model, kind, memory, rate, known);
    for (const DeviceType& other : types_) {
      const std::string name = std::exchange(type.name, other.name);
      if (other == type) return other.name;
      type.name = name;
    }
    for (int number = 2; std::ranges::find(types_, type.name, &DeviceType::name) != types_.end();
         ++number)
      type.name = model + " " + std::to_string(number);
    if (types_.size() == kMaxTypes)
      refuse(value.path + " is of another type than " + std::to_string(kMaxTypes) + " others",
             "a cluster has a few types of devices",
             "describe identical devices with equal values");
    types_.push_back(type);
    assumed_of_[type.name] = assumption_on(type, rate.has_value(), known);
    return type.name;
  }

  std::string assumption_on(const DeviceType& type, bool has_rate,
                            const DevicePreset* known) const {
    const std::string begin = file_ + ": what it does not say of '" + type.name + "' is as of ";
    if (known) return begin + std::string(known->name);
    if (type.kind == HardwareKind::kCpu) return begin + "a core of a common machine";
    if (!has_rate) return begin + "v100-32g";
    return file_ + ": no preset has the model '" + type.name +
           "': its memory has a byte a second for 17 flop/s of f32";
  }

  static DeviceType device_type(const std::string& model, const std::string& kind,
                                std::optional<double> memory, std::optional<double> rate,
                                const DevicePreset* known) {
    DevicePreset preset = known ? *known : *find_preset(kind == "CPU" ? "cpu" : "v100-32g");
    preset.kind = kind == "CPU"                    ? HardwareKind::kCpu
                  : kind == "GPU" || kind == "DCU" ? HardwareKind::kGpu
                                                   : HardwareKind::kNpu;
    if (memory) preset.memory_gb = *memory;
    if (rate) preset.f32_tflops = *rate / 1000;
    if (!known && rate) {  // as many bytes and half the time of an operation, as on a V100
      preset.bf16_tflops = 0;
      preset.memory_gb_per_second = *rate / 17;
    }
    preset.source = "";
    DeviceType type = device_of(preset);
    if (kind == "CPU" && rate) type.cost.flops_per_second = *rate * 1e9;
    type.name = model;
    type.source = "Paddle cluster file";
    return type;
  }

  // ---- links ----

  void read_link(const Value& value) {
    const std::pair ends{id(value.at("source_global_id")), id(value.at("target_global_id"))};
    for (const auto& [number, key] :
         {std::pair{ends.first, "source_global_id"}, std::pair{ends.second, "target_global_id"}})
      if (!nodes_.contains(number))
        refuse(value.path + "." + key + " is " + std::to_string(number),
               "no device has this 'global_id'", "correct the link, or describe the device");
    if (ends.first == ends.second)
      refuse(value.path + " is a link of device " + std::to_string(ends.first) + " to itself",
             "a link is between two devices", "name two devices");
    const std::optional<double> bandwidth = positive(value.at("bandwidth"), "a bandwidth in GB/s");
    if (!bandwidth)
      refuse(value.path + " has no bandwidth", "the price of a message follows from it",
             "write \"bandwidth\": 235.0, in GB/s");
    const auto [known, is_new] =
        links_.emplace(ends, Link{*bandwidth, text(value.at("type"), "link"), value.path});
    if (!is_new)
      refuse(value.path + " is a second link from device " + std::to_string(ends.first) +
                 " to device " + std::to_string(ends.second),
             known->second.path + " is the first one", "remove one of them");
  }

  void check_directions() const {
    for (const auto& [ends, link] : links_) {
      const auto back = links_.find({ends.second, ends.first});
      if (back != links_.end() && back->second.bandwidth != link.bandwidth)
        refuse(link.path + " and " + back->second.path +
                   " have different bandwidths in the two directions",
               "the links between two devices serve both directions alike",
               "write the same bandwidth for both");
    }
  }

  /// `alpha_latency.KEY.ring` in seconds, if it is a number and not the name of a link.
  Seconds latency(const Value& alpha, const std::string& key, double fallback) const {
    const Value value = alpha.at(key).at("ring");
    if (value.document && parsed(*value.document))
      return Seconds(positive(value, "a latency in us").value() / 1e6);
    return Seconds(fallback);
  }

  // ---- machines ----

  bool is_used(int64_t number) const {
    return !has_accelerators_ || nodes_.at(number).kind != "CPU";
  }

  void add_machines(Seconds latency) {
    for (Machine& machine : machines_) {
      std::erase_if(machine.devices, [&](int64_t number) { return !is_used(number); });
      if (machine.devices.empty())
        refuse(machine.path + " has no devices that train",
               has_accelerators_ ? "other machines have accelerators" : "it has network cards only",
               "describe its devices, or remove it");
      const std::string& type = nodes_.at(machine.devices.front()).type;
      for (int64_t number : machine.devices)
        if (nodes_.at(number).type != type)
          refuse(machine.path + " has devices of the types '" + type + "' and '" +
                     nodes_.at(number).type + "'",
                 "the devices of a machine are alike", "describe a machine for each type");
    }
    sort_links();
    for (const Machine& machine : machines_)
      add_machine(machine, nodes_.at(machine.devices.front()).type, latency);
    for (const DeviceType& type : types_)
      if (std::ranges::find(description_.machines, type.name, &MachineGroup::device) !=
          description_.machines.end()) {
        description_.types.push_back(type);
        description_.assumed.push_back(assumed_of_.at(type.name));
      }
  }

  /// The links between devices of each machine, each once.
  void sort_links() {
    for (const Machine& machine : machines_)
      for (size_t i = 0; i < machine.devices.size(); ++i)
        nodes_.at(machine.devices[i]).number = static_cast<int>(i);
    for (const auto& [ends, link] : links_) {
      const Node &a = nodes_.at(ends.first), &b = nodes_.at(ends.second);
      if (a.machine != b.machine || a.number < 0 || b.number < 0) continue;
      if (a.number > b.number && links_.contains({ends.second, ends.first})) continue;
      const auto [low, high] = std::minmax(a.number, b.number);
      machines_[a.machine].links.push_back({low, high, &link});
    }
  }

  void add_machine(const Machine& machine, const std::string& type, Seconds latency) {
    MachineGroup group{{machine.name}, type, static_cast<int>(machine.devices.size()), 0, {}, {}};
    if (machine.links.empty() && machine.devices.size() > 1)
      refuse(machine.path + " has " + std::to_string(machine.devices.size()) +
                 " devices without links",
             "its devices exchange data", "describe them in 'links'");
    if (!machine.links.empty()) {
      const Link& slowest =
          *std::ranges::min_element(machine.links, {}, [](const InnerLink& inner) {
             return inner.link->bandwidth;
           })->link;
      group.levels.push_back({{lower(slowest.type), {latency, slowest.bandwidth * 1e9}}, 0});
      for (const InnerLink& inner : machine.links)
        if (inner.link->bandwidth > slowest.bandwidth)
          group.direct.push_back({inner.a, inner.b, {latency, inner.link->bandwidth * 1e9}});
    }
    // Identical machines are one group.
    if (!description_.machines.empty()) {
      MachineGroup& last = description_.machines.back();
      MachineGroup same = group;
      same.names = last.names;
      if (same == last) {
        last.names.push_back(machine.name);
        return;
      }
    }
    description_.machines.push_back(std::move(group));
  }

  static std::string lower(std::string text) {
    for (char& c : text)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return text.empty() ? "link" : text;
  }

  /// The network cards; without them, the links between devices of different machines.
  void add_network(Seconds latency) {
    LinkLevel level{"network", {latency, 0}};
    double slowest = std::numeric_limits<double>::infinity();
    int ports = std::numeric_limits<int>::max();
    for (const Machine& machine : machines_) {
      slowest = std::min(slowest, machine.nics > 0 ? machine.nic_width : 0);
      ports = std::min(ports, std::max(machine.nics, 1));
    }
    if (slowest == 0) {
      for (const auto& [ends, link] : links_)
        if (nodes_.at(ends.first).machine != nodes_.at(ends.second).machine)
          slowest = slowest == 0 ? link.bandwidth : std::min(slowest, link.bandwidth);
      ports = 1;
      description_.assumed.push_back(
          file_ +
          ": a machine has one port to the network, with the bandwidth of the slowest link "
          "between machines");
    }
    if (slowest == 0)
      refuse("nothing joins the machines", "every two devices of a cluster can communicate",
             "describe a device of the type NIC with its width in GB/s for each machine");
    level.link.bytes_per_second = slowest * 1e9;
    level.ports = ports;
    description_.network.push_back({level, 0, std::vector<int>(machines_.size(), 0)});
  }

  const std::string file_;
  ClusterDescription description_;
  std::vector<DeviceType> types_;
  std::map<std::string, std::string> assumed_of_;  // what is assumed of each type
  std::vector<Machine> machines_;
  std::map<std::string, std::string> names_;  // the path of each machine, by name
  std::map<int64_t, Node> nodes_;             // by id
  std::map<int64_t, std::string> paths_;      // of the devices, by id
  std::map<std::pair<int64_t, int64_t>, Link> links_;
  bool has_accelerators_ = false;
};

}  // namespace

bool is_paddle_cluster(const Document& document) {
  const Document* machines = document.is_table() ? document.find("machines") : nullptr;
  if (!machines || !machines->is_list() || machines->as_list().empty()) return false;
  const Document& first = machines->as_list().front();
  return first.is_table() && first.find("devices");
}

ClusterDescription parse_paddle_cluster(const Document& document, const std::string& file) {
  return PaddleReader(file).read(document);
}

}  // namespace tessera
