#include "cluster/calibration/internal/constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/error.h"

namespace tessera {
namespace {

std::string_view text_of(OperationClass operation) {
  return kOperationClasses[static_cast<size_t>(operation)].text;
}

/// Calls `use` with every level of the name and its place in the document.
void for_each_level(ClusterDescription& description, const std::string& name,
                    const std::function<void(LinkLevel&, const std::string&)>& use) {
  for (size_t m = 0; m < description.machines.size(); ++m)
    for (size_t i = 0; i < description.machines[m].levels.size(); ++i)
      if (LinkLevel& level = description.machines[m].levels[i].level; level.name == name)
        use(level, fmt::format("machine[{}].links[{}]", m, i));
  for (size_t i = 0; i < description.network.size(); ++i)
    if (LinkLevel& level = description.network[i].level; level.name == name)
      use(level, fmt::format("network[{}]", i));
}

/// Changes one constant.
class Change {
 public:
  Change(ClusterDescription& description, const Constant& constant, double factor,
         const std::string& source)
      : description_(description),
        constant_(constant),
        factor_(factor),
        source_(fmt::format("{}: {:.4g} x the time", source, factor)) {}

  void make() const {
    switch (constant_.kind) {
      case Constant::Kind::kKernels:
      case Constant::Kind::kLaunch:
      case Constant::Kind::kCopies: return change_device();
      case Constant::Kind::kLatency:
      case Constant::Kind::kBandwidth: return change_links();
    }
    throw InternalError("unknown kind of constant");
  }

 private:
  void note(const std::string& place) const { description_.sources[place] = source_; }

  void change_device() const {
    const auto type = std::ranges::find(description_.types, constant_.subject, &DeviceType::name);
    ensure(type != description_.types.end(), "the constants are those of the description");
    const std::string rates = "device." + type->name + ".rates.";
    if (constant_.kind == Constant::Kind::kKernels) {
      type->cost.classes[constant_.operation].time_factor *= factor_;
      note(fmt::format("{}{}.time_factor", rates, text_of(constant_.operation)));
    } else if (constant_.kind == Constant::Kind::kLaunch) {
      type->cost.launch_factor *= factor_;
      note(rates + "launch_factor");
    } else {
      type->cost.copied_bytes_per_second /= factor_;
      note(rates + "copies");
    }
  }

  void change_links() const {
    for_each_level(description_, constant_.subject,
                   [&](LinkLevel& level, const std::string& place) {
                     if (constant_.kind == Constant::Kind::kLatency) {
                       level.link.latency = Seconds(level.link.latency.value() * factor_);
                       note(place + ".latency");
                     } else if (level.link.bytes_per_second > 0) {
                       level.link.bytes_per_second /= factor_;
                       note(place + ".bandwidth");
                     }
                   });
  }

  ClusterDescription& description_;
  const Constant& constant_;
  const double factor_;
  const std::string source_;
};

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

}  // namespace

std::string Constant::name() const {
  switch (kind) {
    case Kind::kKernels: return fmt::format("{} on {}", text_of(operation), subject);
    case Kind::kLaunch: return "launch on " + subject;
    case Kind::kCopies: return "copies on " + subject;
    case Kind::kLatency: return "latency of " + subject;
    case Kind::kBandwidth: return "bandwidth of " + subject;
  }
  throw InternalError("unknown kind of constant");
}

std::vector<Constant> constants_of(const ClusterDescription& description) {
  std::vector<Constant> list;
  for (const DeviceType& type : description.types) {
    for (const OperationClassName& name : kOperationClasses)
      list.push_back({Constant::Kind::kKernels, type.name, name.operation});
    list.push_back({Constant::Kind::kLaunch, type.name});
    list.push_back({Constant::Kind::kCopies, type.name});
  }
  std::vector<std::string> with_bandwidth, levels;
  for (const MachineGroup& machine : description.machines)
    for (const InnerLevel& inner : machine.levels) {
      add_once(levels, inner.level.name);
      add_once(with_bandwidth, inner.level.name);
    }
  for (const NetworkLevel& network : description.network) {
    add_once(levels, network.level.name);
    if (network.oversubscription == 0) add_once(with_bandwidth, network.level.name);
  }
  for (const std::string& level : levels) {
    list.push_back({Constant::Kind::kLatency, level});
    if (std::ranges::find(with_bandwidth, level) != with_bandwidth.end())
      list.push_back({Constant::Kind::kBandwidth, level});
  }
  return list;
}

ClusterDescription with_factors(const ClusterDescription& description,
                                std::span<const Constant> constants,
                                std::span<const double> factors, const std::string& source) {
  ensure(constants.size() == factors.size(), "each constant has a factor");
  ClusterDescription changed = description;
  for (size_t i = 0; i < constants.size(); ++i)
    if (factors[i] != 1) Change(changed, constants[i], factors[i], source).make();
  return changed;
}

}  // namespace tessera
