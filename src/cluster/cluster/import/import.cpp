#include "cluster/cluster/import/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/files/document.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "cluster/cluster/internal/import/paddle.h"
#include "cluster/cluster/internal/line_parts.h"
#include "cluster/cluster/internal/presets.h"

namespace tessera {
namespace {

constexpr size_t kBeginning = 64 << 10;  // bytes by which formats are told apart

bool starts_with_key(std::string_view line, std::string_view key) {
  return std::ranges::equal(line.substr(0, key.size()), key, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b;
  });
}

bool is_slurm_line(std::string_view line) {
  for (const std::string_view key : {"switchname=", "blockname=", "blocksizes="})
    if (starts_with_key(line, key)) return true;
  return false;
}

ImportFormat checked_format(std::string_view text, const std::string& file) {
  if (text.size() > kMaxImportBytes)
    refuse_config(file + " has " + grouped(std::ssize(text)) + " bytes",
                  "a description of a cluster has at most " + grouped(kMaxImportBytes),
                  "check that it is the right file");
  if (const std::optional<ImportFormat> format = import_format(text)) return *format;
  refuse_config(
      file + " is no description of a cluster or a machine",
      "topologies of Slurm and NCCL, matrices of nvidia-smi and cluster files of Paddle are "
      "known",
      "check that it is the right file");
}

/// What the options of a line say.
struct Options {
  std::string device;
  int machines = 1;
  std::optional<MachinesOfLine> machine;
  double oversubscription = 0;  // 0: not given
  std::string network;          // "ib=400Gb"; "" when it is not given
  std::string line;             // the whole line, for messages
};

Options options_of(const std::string& file, const std::vector<std::string>& texts) {
  Options options;
  options.line = file + (texts.empty() ? "" : ";") + join(texts, ";");
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string key(trim(text.substr(0, equals)));
    const std::string value(equals == std::string::npos ? "" : trim(text.substr(equals + 1)));
    if (key.empty() || value.empty())
      refuse_config("'" + options.line + "' has the option '" + text + "'",
                    "an option is a name and a value", "write device=a100-80g, or ib=400Gb");
    if (key == "device") {
      options.device = value;
    } else if (key == "machines") {
      options.machines = count_of_line(value, options.line);
    } else if (key == "machine") {
      options.machine = machines_of_line(value, options.line);
    } else if (key == "oversubscription") {
      const char* end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, options.oversubscription);
      if (error != std::errc() || stop != end || !(options.oversubscription > 0) ||
          options.oversubscription > 1e6)
        refuse_config(
            "'" + options.line + "' has the option '" + text + "'",
            "an oversubscription is a number above 0 and at most 1e6",
            "write oversubscription=2 for links that carry half of what the machines can send");
    } else if (options.network.empty()) {
      options.network = key + "=" + value;
    } else {
      refuse_config(
          "'" + options.line + "' has the options '" + options.network + "' and '" + text + "'",
          "each of them is the network", "remove one of them");
    }
  }
  return options;
}

[[noreturn]] void refuse_option(const Options& options, const std::string& option,
                                ImportFormat format) {
  refuse_config("'" + options.line + "' has the option '" + option + "'",
                std::string(to_text(format)) + " has no use for it", "remove it");
}

void add_network(ClusterDescription& description, const Options& options, LinkLevel level,
                 bool is_assumed) {
  const MachineGroup& machine = description.machines.front();
  if (!options.network.empty())
    level = network_of_line(options.network, machine.devices, options.line);
  else if (is_assumed)
    description.assumed.push_back(
        fmt::format("{}: the network is that of machines with {}", options.line, machine.device));
  description.network.push_back({level, 0, {}});
}

ClusterDescription import_switches_of(std::string_view text, const std::string& file,
                                      const Options& options) {
  const SwitchTree tree = parse_slurm_topology(text, file);
  if (!options.device.empty()) refuse_option(options, "device", ImportFormat::kSlurm);
  if (options.machines != 1) refuse_option(options, "machines", ImportFormat::kSlurm);
  if (!options.machine || options.machine->machines != 1)
    refuse_config(
        fmt::format("{} has {} and {} of switches, and no devices", file,
                    counted(std::ssize(tree.machines), "machine"),
                    counted(std::ssize(tree.switch_of_child), "level")),
        "a topology of Slurm names machines and switches only",
        "write '" + file + ";machine=8xa100-80g;ib=400Gb', or import it in a cluster file");
  const DevicePreset& preset = *options.machine->preset;
  ClusterDescription description{file, {device_of(preset)}, {}, {}, {}};
  description.machines.push_back(machine_of(preset, options.machine->devices));
  description.machines.front().names = tree.machines;
  add_network(description, options, network_of(preset), true);
  const LinkLevel lowest = description.network.front().level;
  description.network.clear();
  for (size_t i = 0; i < tree.switch_of_child.size(); ++i)
    description.network.push_back({level_above(lowest, i),
                                   i == 0 ? 0 : oversubscription_of(options.oversubscription),
                                   tree.switch_of_child[i]});
  assume_levels(tree, file, options.oversubscription, description.assumed);
  return description;
}

ClusterDescription import_machine_of(ImportFormat format, std::string_view text,
                                     const std::string& file, const Options& options) {
  if (options.machine) refuse_option(options, "machine", format);
  if (options.oversubscription > 0) refuse_option(options, "oversubscription", format);
  const MachineTopology topology = import_machine(text, file);
  ClusterDescription description{file, {}, {}, {}, {}};
  const DevicePreset& preset = device_preset(topology, options.device, description.assumed);
  description.types.push_back(device_of(preset));
  MachineGroup machine =
      machine_of(topology, std::string(preset.name), &preset, description.assumed);
  for (int i = 0; i < options.machines; ++i) machine.names.push_back("n" + std::to_string(i));
  description.machines.push_back(std::move(machine));
  if (options.machines == 1) {
    if (!options.network.empty()) refuse_option(options, options.network, format);
    return description;
  }
  const LinkLevel cards = network_of(topology);
  add_network(description, options, cards.ports > 0 ? cards : network_of(preset), cards.ports == 0);
  description.network.front().switch_of_child.assign(options.machines, 0);
  return description;
}

}  // namespace

std::string_view to_text(ImportFormat format) {
  switch (format) {
    case ImportFormat::kSlurm: return "a topology of Slurm";
    case ImportFormat::kNvidiaSmi: return "a matrix of nvidia-smi";
    case ImportFormat::kNccl: return "a topology of NCCL";
    case ImportFormat::kPaddle: return "a cluster file of Paddle";
  }
  return "";
}

std::optional<ImportFormat> import_format(std::string_view text) {
  text = text.substr(0, kBeginning);
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  text = trim(text);
  if (text.starts_with('<'))
    return text.find("<system") != std::string_view::npos ? std::optional(ImportFormat::kNccl)
                                                          : std::nullopt;
  if (text.starts_with('{'))
    return text.find("\"machines\"") != std::string_view::npos &&
                   text.find("\"devices\"") != std::string_view::npos
               ? std::optional(ImportFormat::kPaddle)
               : std::nullopt;
  if (is_matrix_header(text.substr(0, text.find('\n'))) &&
      text.find("\nGPU") != std::string_view::npos)
    return ImportFormat::kNvidiaSmi;
  while (!text.empty()) {
    const std::string_view line = trim(text.substr(0, text.find('\n')));
    if (is_slurm_line(line)) return ImportFormat::kSlurm;
    if (!line.empty() && !line.starts_with('#')) return std::nullopt;
    text.remove_prefix(std::min(text.size(), std::min(text.find('\n'), text.size()) + 1));
  }
  return std::nullopt;
}

ClusterDescription import_cluster(std::string_view text, const std::string& file,
                                  const std::vector<std::string>& texts) {
  const ImportFormat format = checked_format(text, file);
  const Options options = options_of(file, texts);
  if (format == ImportFormat::kSlurm) return import_switches_of(text, file, options);
  if (format == ImportFormat::kNvidiaSmi || format == ImportFormat::kNccl)
    return import_machine_of(format, text, file, options);
  if (!texts.empty()) refuse_option(options, texts.front(), ImportFormat::kPaddle);
  ClusterDescription description = parse_paddle_cluster(parse_json(text, file), file);
  description.name = file;
  return description;
}

const DevicePreset& device_preset(const MachineTopology& topology, const std::string& name,
                                  std::vector<std::string>& assumed) {
  if (!name.empty()) {
    const DevicePreset* preset = find_preset(name);
    if (preset) return *preset;
    const std::vector<std::string> names = preset_names();
    const std::string close = nearest_preset(name);
    refuse_config("no device is called '" + name + "'", "known devices are " + join(names, ", "),
                  close.empty() ? "name one of these" : "write '" + close + "'");
  }
  const DevicePreset* likely = find_preset(likely_device(topology));
  if (!likely)
    refuse_config(topology.source + " does not say which devices the machine has",
                  "neither an architecture nor the number of NVLinks hints at a known device",
                  "write '" + topology.source + ";device=a100-80g', or 'device' in a cluster file");
  assumed.push_back(topology.source + ": the GPUs are " + std::string(likely->name) +
                    ", by their " + (topology.sm > 0 ? "architecture" : "number of NVLinks"));
  return *likely;
}

double oversubscription_of(double given) {
  return given > 0 ? given : 1;
}

LinkLevel level_above(const LinkLevel& lowest, size_t levels) {
  LinkLevel level = lowest;
  if (levels == 0) return level;
  level.name += "-" + std::to_string(levels + 1);
  level.link.bytes_per_second = 0;
  level.ports = 1;
  return level;
}

void assume_levels(const SwitchTree& tree, const std::string& file, double oversubscription,
                   std::vector<std::string>& assumed) {
  if (tree.switch_of_child.size() < 2) return;
  assumed.push_back(file + ": all levels have the latency of the lowest one");
  if (oversubscription == 0)
    assumed.push_back(file +
                      ": the links between switches carry all that the machines below can send");
}

MachineTopology import_machine(std::string_view text, const std::string& file) {
  const ImportFormat format = checked_format(text, file);
  if (format == ImportFormat::kNccl) return parse_nccl_topology(text, file);
  if (format == ImportFormat::kNvidiaSmi) return parse_nvidia_smi(text, file);
  refuse_config(
      file + " is " + std::string(to_text(format)) + " and describes no machine",
      "a machine is imported from a matrix of nvidia-smi or a topology of NCCL",
      format == ImportFormat::kSlurm ? "import it as a [[network]]" : "name it as the cluster");
}

SwitchTree import_switches(std::string_view text, const std::string& file) {
  const ImportFormat format = checked_format(text, file);
  if (format == ImportFormat::kSlurm) return parse_slurm_topology(text, file);
  refuse_config(
      file + " is " + std::string(to_text(format)) + " and describes no network",
      "the switches of a network are imported from a topology of Slurm",
      format == ImportFormat::kPaddle ? "name it as the cluster" : "import it as a [[machine]]");
}

}  // namespace tessera
