#include "cluster/cluster_file.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/config_table.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cluster/presets.h"
#include "cost/cost_file.h"
#include "cost/quantity.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kBadConfig);
}

constexpr std::array kKinds{HardwareKind::kCpu, HardwareKind::kGpu, HardwareKind::kNpu};
constexpr std::array kSharings{LinkSharing::kSwitch, LinkSharing::kBus, LinkSharing::kMesh};

template <typename Choices>
auto choice_of(ConfigTable& table, const std::string& key, const Choices& choices,
               typename Choices::value_type fallback) {
  std::vector<std::string> names;
  for (const auto choice : choices) names.emplace_back(to_text(choice));
  const std::string text = table.choice(key, std::string(to_text(fallback)), names);
  return *std::find_if(choices.begin(), choices.end(),
                       [&](const auto choice) { return to_text(choice) == text; });
}

/// The tables of a list; none when it is absent.
class TableList {
 public:
  TableList(const Document* list, std::string path, std::string file)
      : path_(std::move(path)), file_(std::move(file)) {
    if (!list) return;
    if (!list->is_list())
      refuse(file_ + ": " + path_ + " is " + kind_of(*list), "it is a list of tables",
             "write each of them as [[" + path_ + "]], or as {...} in [ ]");
    for (const Document& item : list->as_list()) items_.push_back(&item);
  }
  size_t size() const { return items_.size(); }
  std::string path(size_t i) const { return path_ + "[" + std::to_string(i) + "]"; }
  ConfigTable table(size_t i) const { return {items_[i], path(i), file_}; }

 private:
  std::string path_, file_;
  std::vector<const Document*> items_;
};

class ClusterReader {
 public:
  ClusterReader(const Document& document, const std::string& origin)
      : document_(document), file_(origin) {}

  ClusterDescription read() {
    ConfigTable table(&document_, "", file_);
    description_.name = table.text("name", "");
    read_types(table.raw("device"));
    const TableList machines(table.raw("machine"), "machine", file_);
    for (size_t i = 0; i < machines.size(); ++i) read_machine(machines.table(i), machines.path(i));
    const TableList network(table.raw("network"), "network", file_);
    children_.reserve(machines_.size());
    for (size_t i = 0; i < machines_.size(); ++i) children_.push_back({static_cast<int>(i)});
    for (size_t i = 0; i < network.size(); ++i) read_network(network.table(i), network.path(i));
    const TableList links(table.raw("link"), "link", file_);
    for (size_t i = 0; i < links.size(); ++i) read_direct(links.table(i), links.path(i));
    table.finish();
    return std::move(description_);
  }

 private:
  // ---- devices ----

  void read_types(const Document* types) {
    if (!types) return;
    if (!types->is_table())
      refuse(file_ + ": device is " + kind_of(*types), "types of devices are tables by their names",
             "write [device.NAME]");
    for (const auto& [name, value] : types->as_table())
      description_.types.push_back(
          read_type(name, ConfigTable(&value, "device." + name, file_), "device." + name));
  }

  DeviceType read_type(const std::string& name, ConfigTable table, const std::string& path) {
    DeviceType type;
    if (const std::string preset = table.text("preset", ""); !preset.empty())
      type = device_of(preset_of(preset));
    type.name = name;
    type.kind = choice_of(table, "kind", kKinds, type.kind);
    // `memory` is the size of the memory; its bandwidth has the key `bandwidth`.
    type.memory = read_byte_count(table, "memory", path, file_, type.memory);
    type.reserve = read_byte_count(table, "reserve", path, file_, type.reserve);
    ConfigTable rates = table.table("rates");
    type.cost = read_device_cost(rates, path + ".rates", file_, type.cost);
    rates.finish();
    type.source = table.text("source", type.source);
    table.finish();
    return type;
  }

  static const DevicePreset& preset_of(const std::string& name) {
    if (const DevicePreset* preset = find_preset(name)) return *preset;
    const std::vector<std::string> names = preset_names();
    const std::string close = nearest(name, names);
    refuse("no device is called '" + name + "'", "known devices are " + join(names, ", "),
           close.empty() ? "name one of these, or describe the device" : "write '" + close + "'");
  }

  // ---- machines ----

  void read_machine(ConfigTable table, const std::string& path) {
    MachineGroup machine;
    const std::string list = table.text("names", "");
    const int64_t count = table.integer("count", 0, 0, 1 << 20);
    if (list.empty() == (count == 0))
      refuse(file_ + ": " + path + " has " + (count == 0 ? "no names" : "names and a count"),
             "machines have names, or a count and names of their own",
             "write names = \"n[0-3]\" or count = 4");
    if (count > 0)
      for (int64_t i = 0; i < count; ++i)
        machine.names.push_back("n" + std::to_string(machines_.size() + i));
    else
      machine.names = expand_names(list);
    machine.device = table.text("device", "");
    machine.devices = static_cast<int>(table.integer("devices", 1, 1, 1 << 20));
    machine.cores = table.number("cores", 0, 0, 1e6);
    add_preset_type(machine.device);
    const TableList levels(table.raw("links"), path + ".links", file_);
    for (size_t i = 0; i < levels.size(); ++i) {
      ConfigTable level = levels.table(i);
      const auto size = static_cast<int>(level.integer("size", 0, 0, 1 << 20));
      machine.levels.push_back({read_level(level, levels.path(i)), size});
      level.finish();
    }
    const TableList direct(table.raw("direct"), path + ".direct", file_);
    for (size_t i = 0; i < direct.size(); ++i)
      machine.direct.push_back(read_direct_of_machine(direct.table(i), direct.path(i)));
    table.finish();
    for (const std::string& name : machine.names) {
      machines_.push_back(name);
      first_device_[name] = {devices_, machine.devices};
      devices_ += machine.devices;
    }
    description_.machines.push_back(std::move(machine));
  }

  /// A machine may name a preset for which no type is described.
  void add_preset_type(const std::string& name) {
    const auto& types = description_.types;
    const auto is_it = [&](const DeviceType& type) { return type.name == name; };
    if (std::any_of(types.begin(), types.end(), is_it)) return;
    const DevicePreset* preset = find_preset(name);
    if (!preset) return;  // Cluster refuses it
    description_.types.push_back(device_of(*preset));
    description_.types.back().name = name;
  }

  DirectLink read_direct_of_machine(ConfigTable table, const std::string& path) {
    const std::vector<int64_t> devices = integers(table.raw("devices"));
    if (devices.size() != 2)
      refuse(file_ + ": " + path + " is not a link between two devices",
             "'devices' are the numbers of two devices of the machine", "write devices = [0, 3]");
    const DirectLink link{static_cast<int>(devices[0]), static_cast<int>(devices[1]),
                          read_link(table, path)};
    table.finish();
    return link;
  }

  static std::vector<int64_t> integers(const Document* list) {
    std::vector<int64_t> numbers;
    if (!list || !list->is_list()) return numbers;
    for (const Document& item : list->as_list())
      if (item.is_int() && item.as_int() >= 0 && item.as_int() <= 1 << 20)
        numbers.push_back(item.as_int());
    return numbers.size() == list->as_list().size() ? numbers : std::vector<int64_t>{};
  }

  // ---- links ----

  LinkCost read_link(ConfigTable& table, const std::string& path) {
    if (!table.has("bandwidth"))
      refuse(file_ + ": " + path + " has no bandwidth", "the price of a message follows from it",
             "write bandwidth = \"300 GB/s\": of one port in one direction");
    return read_link_cost(table, path, file_, {Seconds(2e-6), 0});
  }

  LinkLevel read_level(ConfigTable& table, const std::string& path) {
    LinkLevel level;
    level.name = table.text("name", "");
    if (level.name.empty())
      refuse(file_ + ": " + path + " has no name", "reports name the links",
             "write name = \"nvlink\"");
    level.link = read_link(table, path);
    level.sharing = choice_of(table, "sharing", kSharings, LinkSharing::kSwitch);
    level.ports = static_cast<int>(table.integer("ports", 1, 1, 1 << 16));
    return level;
  }

  void read_network(ConfigTable table, const std::string& path) {
    NetworkLevel network;
    network.oversubscription = table.number("oversubscription", 0, 0, 1e6);
    if (network.oversubscription > 0) {
      if (table.has("bandwidth"))
        refuse(file_ + ": " + path + " has a bandwidth and an oversubscription",
               "each of them says what the links between the switches carry",
               "remove one of the two");
      network.level.name = table.text("name", "");
      network.level.link = read_link_cost(table, path, file_, {Seconds(5e-6), 0});
      if (network.level.name.empty()) network.level.name = "network";
    } else {
      network.level = read_level(table, path);
    }
    const auto size = static_cast<int>(table.integer("size", 0, 0, 1 << 20));
    const std::vector<std::string> switches = table.texts("switches", {});
    if (size > 0 && !switches.empty())
      refuse(file_ + ": " + path + " has a size and switches", "each says what a switch joins",
             "remove one of the two");
    network.switch_of_child = switches.empty() ? groups_of(size) : groups_of(switches, path);
    table.finish();
    join_children(network.switch_of_child);
    description_.network.push_back(std::move(network));
  }

  std::vector<int> groups_of(int size) const {
    std::vector<int> groups;
    for (size_t i = 0; i < children_.size(); ++i)
      groups.push_back(size == 0 ? 0 : static_cast<int>(i) / size);
    return groups;
  }

  /// By the names of the machines below each switch.
  std::vector<int> groups_of(const std::vector<std::string>& switches, const std::string& path) {
    std::map<std::string, int> switch_of;
    for (size_t i = 0; i < switches.size(); ++i)
      for (const std::string& name : expand_names(switches[i]))
        if (!switch_of.emplace(name, i).second)
          refuse(file_ + ": " + path + " joins machine '" + name + "' twice",
                 "the switches of one level do not overlap", "name it once");
    std::vector<int> groups;
    for (const std::vector<int>& machines : children_) {
      std::vector<int> found;
      for (int machine : machines) {
        const auto at = switch_of.find(machines_[machine]);
        if (at == switch_of.end())
          refuse(file_ + ": " + path + " does not join machine '" + machines_[machine] + "'",
                 "every machine is below a switch of each level",
                 "add it to 'switches', or leave them out: then all are joined");
        found.push_back(at->second);
      }
      if (std::any_of(found.begin(), found.end(), [&](int other) { return other != found[0]; }))
        refuse(file_ + ": " + path + " divides the machines of one switch of the level below",
               "the levels of a network are a tree, from the inside out",
               "name all machines of that switch in one text");
      groups.push_back(found[0]);
    }
    check_switches(switch_of, switches, groups, path);
    return groups;
  }

  void check_switches(const std::map<std::string, int>& switch_of,
                      const std::vector<std::string>& switches, const std::vector<int>& groups,
                      const std::string& path) {
    for (const auto& [name, unused] : switch_of)
      if (!first_device_.contains(name)) {
        const std::string close = nearest(name, machines_);
        refuse(file_ + ": " + path + " joins machine '" + name + "'",
               "no machine of the cluster has this name",
               close.empty() ? "describe it under [[machine]]" : "write '" + close + "'");
      }
    for (size_t i = 0; i < switches.size(); ++i)
      ensure(std::find(groups.begin(), groups.end(), i) != groups.end(), "a switch joins machines");
  }

  void join_children(const std::vector<int>& groups) {
    std::vector<std::vector<int>> joined(
        groups.empty() ? 0 : 1 + *std::max_element(groups.begin(), groups.end()));
    for (size_t i = 0; i < groups.size(); ++i)
      joined[groups[i]].insert(joined[groups[i]].end(), children_[i].begin(), children_[i].end());
    children_ = std::move(joined);
  }

  void read_direct(ConfigTable table, const std::string& path) {
    const std::vector<std::string> names = table.texts("between", {});
    if (names.size() != 2)
      refuse(file_ + ": " + path + " is not a link between two devices",
             "'between' has the names of two devices", R"(write between = ["n0/3", "n1/3"])");
    const DirectLink link{device_named(names[0], path), device_named(names[1], path),
                          read_link(table, path)};
    table.finish();
    description_.direct.push_back(link);
  }

  int device_named(const std::string& name, const std::string& path) const {
    const size_t slash = name.rfind('/');
    const std::string machine = name.substr(0, slash);
    const auto found = first_device_.find(machine);
    if (slash != std::string::npos && found != first_device_.end()) {
      const std::string number = name.substr(slash + 1);
      for (int i = 0; i < found->second.second; ++i)
        if (number == std::to_string(i)) return found->second.first + i;
    }
    refuse(file_ + ": " + path + " names the device '" + name + "'",
           found == first_device_.end() ? "no machine is called '" + machine + "'"
                                        : "machine '" + machine + "' has the devices 0 to " +
                                              std::to_string(found->second.second - 1),
           "write the machine, / and the number of the device in it: \"n0/3\"");
  }

  const Document& document_;
  const std::string file_;
  ClusterDescription description_;
  std::vector<std::string> machines_;                        // their names
  std::map<std::string, std::pair<int, int>> first_device_;  // and their number, by machine
  int devices_ = 0;
  std::vector<std::vector<int>> children_;  // machines below each child of the next network level
};

}  // namespace

Cluster read_cluster(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  return parse_cluster(file.extension() == ".json" ? parse_json(text, file.string())
                                                   : parse_toml(text, file.string()),
                       file.string());
}

Cluster parse_cluster(const Document& document, const std::string& origin) {
  return Cluster(ClusterReader(document, origin).read());
}

Cluster cluster_of(const std::string& file_or_line) {
  if (std::filesystem::exists(file_or_line) || file_or_line.ends_with(".toml") ||
      file_or_line.ends_with(".json"))
    return read_cluster(file_or_line);
  return parse_cluster_line(file_or_line);
}

}  // namespace tessera
