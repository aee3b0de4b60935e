#include "cluster/cluster/cluster_file.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/error.h"
#include "base/files/config_table.h"
#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/detect.h"
#include "cluster/cluster/import/import.h"
#include "cluster/cluster/internal/choices.h"
#include "cluster/cluster/internal/place.h"
#include "cluster/cluster/internal/presets.h"
#include "cluster/cluster/profile_file.h"
#include "cluster/cost/cost_file.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

constexpr int64_t kMaxMachines = 1 << 20;

constexpr std::array kKinds{HardwareKind::kCpu, HardwareKind::kGpu, HardwareKind::kNpu};
constexpr std::array kSharings{LinkSharing::kSwitch, LinkSharing::kBus, LinkSharing::kMesh};

/// A table of a list, and its place for messages.
struct Item {
  ConfigTable table;
  std::string path;  // "network[0]"
};

/// The tables of the list `key`; none when it is absent.
std::vector<Item> items_of(ConfigTable& table, const std::string& key) {
  std::vector<Item> items;
  const Document* list = table.raw(key, {.type = "list of tables", .fallback = "[]"});
  if (!list) return items;
  const std::string path = table.full(key);
  if (!list->is_list())
    refuse_config(table.file() + ": " + path + " is " + kind_of(*list), "it is a list of tables",
                  "write each of them as [[" + path + "]], or as {...} in [ ]");
  for (size_t i = 0; i < list->as_list().size(); ++i) {
    const std::string number = "[" + std::to_string(i) + "]";
    items.push_back({table.inside(list->as_list()[i], key + number, key + "[]"), path + number});
  }
  return items;
}

class ClusterReader {
 public:
  ClusterReader(const Document& document, const std::string& origin, const ClusterReading& reading)
      : document_(document),
        table_(&document, "", origin, reading.keys),
        file_(origin),
        reading_(reading) {}

  ClusterDescription read() {
    description_.name = table_.text("name", "");
    read_types();
    for (Item& item : items_of(table_, "machine")) read_machine(item.table, item.path);
    for (size_t i = 0; i < machines_.size(); ++i) children_.push_back({static_cast<int>(i)});
    for (Item& item : items_of(table_, "network")) read_network(item.table, item.path);
    for (Item& item : items_of(table_, "link")) read_direct(item.table, item.path);
    read_runtime();
    for (std::string& text : table_.texts("assumed", {}))
      description_.assumed.push_back(std::move(text));
    read_sources();
    table_.finish();
    RuntimeProfile runtime = std::move(description_.runtime);
    return on_runtime(std::move(description_), std::move(runtime));
  }

 private:
  void read_runtime() {
    if (!table_.raw("runtime", {.fallback = "{}"})) return;
    ConfigTable table = table_.table("runtime");
    description_.runtime = read_profile(table);
    table.finish();
  }

  void read_sources() {
    const Document* sources = table_.raw("sources", {.type = "table of texts", .fallback = "{}"});
    if (!sources) return;
    ConfigTable table(sources, "sources", file_);
    if (!sources->is_table())
      refuse_config(file_ + ": sources is " + kind_of(*sources), "it is a table of texts",
                    "write sources = {\"device.a100.memory\" = \"data sheet\"}");
    for (const auto& [place, text] : sources->as_table()) {
      description_.sources[place] = table.text(place, "");
      if (!has_place(document_, place))
        refuse_config(file_ + ": sources has '" + place + "', which is no place in this file",
                      "each of its keys is that of a value or a table, as in device.a100.memory or "
                      "machine[0].links[0]",
                      "correct the key, or remove the line");
    }
  }

  // ---- devices ----

  void read_types() {
    const Document* types = table_.raw("device");
    if (!types) return;
    if (!types->is_table())
      refuse_config(file_ + ": device is " + kind_of(*types),
                    "types of devices are tables by their names", "write [device.NAME]");
    ConfigTable tables = table_.table("device");
    for (const auto& [name, value] : types->as_table())
      description_.types.push_back(read_type(name, tables.table(name, "NAME")));
  }

  DeviceType read_type(const std::string& name, ConfigTable table) {
    DeviceType type;
    if (const std::string preset = table.text("preset", ""); !preset.empty()) {
      type = device_of(preset_of(preset));
      preset_of_type_[name] = &preset_of(preset);
    }
    type.name = name;
    type.kind = choice_of(table, "kind", kKinds, type.kind);
    type.memory = read_byte_count(table, "memory", type.memory);
    type.reserve = read_byte_count(table, "reserve", type.reserve);
    ConfigTable rates(table.raw("rates"), table.full("rates"), table.file());
    type.cost = read_device_cost(rates, type.cost);
    rates.finish();
    ConfigTable peaks(table.raw("peaks"), table.full("peaks"), table.file());
    type.peaks = read_peaks(peaks, type.peaks);
    peaks.finish();
    type.sustained = table.number("sustained", type.sustained, 0.01, 2);
    type.source = table.text("source", type.source);
    table.finish();
    return type;
  }

  static const DevicePreset& preset_of(const std::string& name) {
    if (const DevicePreset* preset = find_preset(name)) return *preset;
    const std::vector<std::string> names = preset_names();
    const std::string close = nearest_preset(name);
    refuse_config(
        "no device is called '" + name + "'", "known devices are " + join(names, ", "),
        close.empty() ? "name one of these, or describe the device" : "write '" + close + "'");
  }

  // ---- machines ----

  void read_machine(ConfigTable& table, const std::string& path) {
    MachineGroup machine;
    const std::string list = table.text("names", "");
    const int64_t count = table.integer("count", 0, 0, 1 << 20);
    if (list.empty() == (count == 0))
      refuse_config(file_ + ": " + path + " has " + (count == 0 ? "no names" : "names and a count"),
                    "machines have names, or a count and names of their own",
                    "write names = \"n[0-3]\" or count = 4");
    if (std::ssize(machines_) + count > kMaxMachines)
      refuse_config(
          file_ + ": the machines up to " + path + " are more than " + grouped(kMaxMachines),
          "that is the limit of a description", "describe a part of the cluster");
    if (count > 0)
      for (int64_t i = 0; i < count; ++i)
        machine.names.push_back("n" + std::to_string(machines_.size() + i));
    else
      machine.names = expand_names(list);
    machine.device = table.text("device", "");
    import_machine_to(machine, table, path);
    machine.cores = table.number("cores", 0, 0, 1e6);
    read_ports(machine, table, path);
    add_preset_type(machine.device);
    for (Item& item : items_of(table, "links")) {
      const auto size = static_cast<int>(item.table.integer("size", 0, 0, 1 << 20));
      machine.levels.push_back({read_level(item.table, item.path), size});
      item.table.finish();
    }
    for (Item& item : items_of(table, "direct"))
      machine.direct.push_back(read_direct_of_machine(item.table, item.path));
    table.finish();
    for (const std::string& name : machine.names) {
      machines_.push_back(name);
      first_device_[name] = {devices_, machine.devices};
      devices_ += machine.devices;
    }
    description_.machines.push_back(std::move(machine));
  }

  /// The ports of a machine into the network, where the level does not say them.
  void read_ports(MachineGroup& machine, ConfigTable& table, const std::string& path) {
    ConfigTable network = table.table("network");
    const std::string text = network.text("bandwidth", "");
    const auto rate = parse_quantity(text, byte_rate_units());
    const auto ports = static_cast<int>(network.integer("ports", 1, 1, 1 << 16));
    if (rate && *rate > 0)
      machine.network = MachinePorts{ports, *rate};
    else if (table.has("network"))
      refuse_config(file_ + ": " + path + ".network has the bandwidth '" + text + "'",
                    "it says how fast a port of the machine into the network is, as a number with "
                    "its unit",
                    "write network = {bandwidth = \"1 Gb/s\"}, or remove it");
    network.finish();
  }

  /// The devices and links of a machine: their number, or a file that has both.
  void import_machine_to(MachineGroup& machine, ConfigTable& table, const std::string& path) {
    const std::string import = table.text("import", "");
    machine.devices = static_cast<int>(table.integer("devices", 1, 1, 1 << 20));
    if (import.empty()) return;
    for (const char* key : {"devices", "links", "direct"})
      if (table.has(key))
        refuse_config(file_ + ": " + path + " has an import and " + key,
                      "the imported file describes the devices and the links of the machine",
                      "remove one of the two");
    const MachineTopology topology = import_machine(imported(import), import);
    const DevicePreset* preset = nullptr;
    if (machine.device.empty()) {
      preset = &device_preset(topology, "", description_.assumed);
      machine.device = preset->name;
    } else if (const auto known = preset_of_type_.find(machine.device);
               known != preset_of_type_.end()) {
      preset = known->second;
    } else if (!has_type(machine.device)) {
      preset = find_preset(machine.device);
    }
    MachineGroup found = machine_of(topology, machine.device, preset, description_.assumed);
    machine.devices = found.devices;
    machine.levels = std::move(found.levels);
    machine.direct = std::move(found.direct);
  }

  /// The text of a file beside this one.
  std::string imported(const std::string& name) const {
    const std::filesystem::path path = std::filesystem::path(file_).parent_path() / name;
    return reading_.imported ? reading_.imported(path) : read_file(path, kMaxImportBytes);
  }

  bool has_type(const std::string& name) const {
    const auto& types = description_.types;
    return std::ranges::find(types, name, &DeviceType::name) != types.end();
  }

  /// A machine may name a preset for which no type is described.
  void add_preset_type(const std::string& name) {
    if (has_type(name)) return;
    const DevicePreset* preset = find_preset(name);
    if (!preset) return;  // Cluster refuses it
    description_.types.push_back(device_of(*preset));
    description_.types.back().name = name;
  }

  DirectLink read_direct_of_machine(ConfigTable& table, const std::string& path) {
    const std::vector<int64_t> devices =
        integers(table.raw("devices", {.type = "list of integers", .range = "two devices"}));
    if (devices.size() != 2)
      refuse_config(file_ + ": " + path + " is not a link between two devices",
                    "'devices' are the numbers of two devices of the machine",
                    "write devices = [0, 3]");
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
      refuse_config(file_ + ": " + path + " has no bandwidth",
                    "the price of a message follows from it",
                    "write bandwidth = \"300 GB/s\": of one port in one direction");
    return read_link_cost(table, {Seconds(2e-6), 0});
  }

  LinkLevel read_level(ConfigTable& table, const std::string& path) {
    LinkLevel level;
    level.name = table.text("name", "");
    if (level.name.empty())
      refuse_config(file_ + ": " + path + " has no name", "reports name the links",
                    "write name = \"nvlink\"");
    level.link = read_link(table, path);
    level.sharing = choice_of(table, "sharing", kSharings, LinkSharing::kSwitch);
    level.ports = static_cast<int>(table.integer("ports", 1, 1, 1 << 16));
    return level;
  }

  void read_network(ConfigTable& table, const std::string& path) {
    NetworkLevel network;
    network.oversubscription = table.number("oversubscription", 0, 0, 1e6);
    if (const std::string import = table.text("import", ""); !import.empty()) {
      import_network(table, path, import, network.oversubscription);
      return;
    }
    if (network.oversubscription > 0) {
      if (table.has("bandwidth"))
        refuse_config(file_ + ": " + path + " has a bandwidth and an oversubscription",
                      "each of them says what the links between the switches carry",
                      "remove one of the two");
      network.level.name = table.text("name", "");
      network.level.link = read_link_cost(table, {Seconds(5e-6), 0});
      if (network.level.name.empty()) network.level.name = "network";
    } else {
      network.level = read_level(table, path);
    }
    const auto size = static_cast<int>(table.integer("size", 0, 0, 1 << 20));
    const std::vector<std::string> switches = table.texts("switches", {});
    if (size > 0 && !switches.empty())
      refuse_config(file_ + ": " + path + " has a size and switches",
                    "each says what a switch joins", "remove one of the two");
    network.switch_of_child = switches.empty() ? groups_of(size) : groups_of(switches, path);
    table.finish();
    join_children(network.switch_of_child);
    description_.network.push_back(std::move(network));
  }

  /// All levels of a file of switches. The table describes the lowest one, and the oversubscription
  /// of the others.
  void import_network(ConfigTable& table, const std::string& path, const std::string& import,
                      double oversubscription) {
    for (const char* key : {"size", "switches"})
      if (table.has(key))
        refuse_config(file_ + ": " + path + " has an import and " + key,
                      "the imported file says what each switch joins", "remove one of the two");
    const LinkLevel lowest = read_level(table, path);
    table.finish();
    const SwitchTree tree = import_switches(imported(import), import);
    std::vector<std::string> below = tree.machines;  // the names below each child of a level
    for (size_t level = 0; level < tree.switch_of_child.size(); ++level) {
      std::vector<std::string> switches;
      for (size_t i = 0; i < below.size(); ++i) {
        switches.resize(std::max<size_t>(switches.size(), tree.switch_of_child[level][i] + 1));
        std::string& names = switches[tree.switch_of_child[level][i]];
        names += (names.empty() ? "" : ",") + below[i];
      }
      NetworkLevel network{level_above(lowest, level),
                           level == 0 ? 0 : oversubscription_of(oversubscription),
                           groups_of(switches, path)};
      join_children(network.switch_of_child);
      description_.network.push_back(std::move(network));
      below = std::move(switches);
    }
    assume_levels(tree, import, oversubscription, description_.assumed);
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
          refuse_config(file_ + ": " + path + " joins machine '" + name + "' twice",
                        "the switches of one level do not overlap", "name it once");
    std::vector<int> groups;
    for (const std::vector<int>& machines : children_) {
      std::vector<int> found;
      for (int machine : machines) {
        const auto at = switch_of.find(machines_[machine]);
        if (at == switch_of.end())
          refuse_config(file_ + ": " + path + " does not join machine '" + machines_[machine] + "'",
                        "every machine is below a switch of each level",
                        "add it to 'switches', or leave them out: then all are joined");
        found.push_back(at->second);
      }
      if (std::any_of(found.begin(), found.end(), [&](int other) { return other != found[0]; }))
        refuse_config(
            file_ + ": " + path + " divides the machines of one switch of the level below",
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
        refuse_config(file_ + ": " + path + " joins machine '" + name + "'",
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

  void read_direct(ConfigTable& table, const std::string& path) {
    const std::vector<std::string> names = table.texts("between", {});
    if (names.size() != 2)
      refuse_config(file_ + ": " + path + " is not a link between two devices",
                    "'between' has the names of two devices",
                    R"(write between = ["n0/3", "n1/3"])");
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
    refuse_config(file_ + ": " + path + " names the device '" + name + "'",
                  found == first_device_.end() ? "no machine is called '" + machine + "'"
                                               : "machine '" + machine + "' has the devices 0 to " +
                                                     std::to_string(found->second.second - 1),
                  "write the machine, / and the number of the device in it: \"n0/3\"");
  }

  const Document& document_;
  ConfigTable table_;
  const std::string file_;
  const ClusterReading reading_;
  ClusterDescription description_;
  std::map<std::string, const DevicePreset*> preset_of_type_;  // that name one
  std::vector<std::string> machines_;                          // their names
  std::map<std::string, std::pair<int, int>> first_device_;    // and their number, by machine
  int devices_ = 0;
  std::vector<std::vector<int>> children_;  // machines below each child of the next network level
};

constexpr const char* kDetect = "detect";

bool is_json(std::string_view text) {
  return trim(text.substr(0, 1 << 16)).starts_with('{');
}

Document parse_either(std::string_view text, const std::string& file) {
  return is_json(text) || file.ends_with(".json") ? parse_commented_json(text, file)
                                                  : parse_toml(text, file);
}

bool has_options(const std::string& text) {
  std::error_code unknown;
  const size_t semicolon = text.find(';');
  return semicolon != std::string::npos &&
         std::filesystem::is_regular_file(text.substr(0, semicolon), unknown);
}

}  // namespace

Cluster read_cluster(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  if (import_format(text)) return Cluster(import_cluster(text, file.string()));
  return parse_cluster(parse_either(text, file.string()), file.string());
}

ClusterDescription parse_cluster_description(const Document& document, const std::string& origin,
                                             const ClusterReading& reading) {
  return ClusterReader(document, origin, reading).read();
}

Cluster parse_cluster(const Document& document, const std::string& origin) {
  return Cluster(parse_cluster_description(document, origin));
}

bool is_cluster_text(std::string_view text, const std::string& file) {
  if (import_format(text)) return true;
  const Document document = parse_either(text, file);
  const Document *device = document.find("device"), *machine = document.find("machine");
  return (device && device->is_table()) || (machine && !machine->is_null());
}

bool names_cluster(const std::string& text) {
  return text == kDetect || is_cluster_line(text) || has_options(text);
}

Cluster cluster_of(const std::string& text) {
  std::error_code unknown;
  if (std::filesystem::exists(text, unknown)) return read_cluster(text);
  if (text == kDetect) return Cluster(detect_machine());
  if (has_options(text)) {
    std::vector<std::string> parts = split_text(text, ';');
    const std::string file = parts.front();
    parts.erase(parts.begin());
    return Cluster(import_cluster(read_file(file), file, parts));
  }
  if (text.ends_with(".toml") || text.ends_with(".json")) return read_cluster(text);
  return parse_cluster_line(text);
}

}  // namespace tessera
