#include "cluster/mapping/internal/needs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/text/count_text.h"
#include "cluster/cost/quantity.h"

namespace tessera {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& why, const std::string& fix) {
  throw UserError(what, why, fix, ExitCode::kNoPlan);
}

Bytes offered(const DeviceType& type) {
  return Bytes(type.memory.value() - type.reserve.value());
}

/// "8 'a100' (gpu), 4 'xeon' (cpu)".
std::string types_text(const Cluster& cluster) {
  std::string text;
  for (const DeviceGroup& group : cluster.groups()) {
    if (!text.empty()) text += ", ";
    text += grouped(std::ssize(group.devices)) + " '" + group.type + "' (" +
            std::string(to_text(cluster.type(group.devices.front()).kind)) + ")";
  }
  return text;
}

/// "rank 3", "16 ranks, of which rank 3 is the first".
std::string ranks_text(const NeedClass& needs) {
  const std::string first = "rank " + std::to_string(needs.ranks.front());
  if (needs.ranks.size() == 1) return first;
  return counted(std::ssize(needs.ranks), "rank") + ", of which " + first + " is the first,";
}

std::string needs_word(const NeedClass& needs) {
  return needs.ranks.size() == 1 ? " needs " : " need ";
}

bool is_of_kind(const DeviceNeed& need, const DeviceType& type) {
  return (!need.kind || *need.kind == type.kind) && (need.type.empty() || need.type == type.name);
}

std::string wanted_text(const DeviceNeed& need) {
  if (!need.type.empty()) return "of the type '" + need.type + "'";
  return need.kind ? "of the kind '" + std::string(to_text(*need.kind)) + "'" : "of any type";
}

/// No type of the cluster fits: says which part of the need is missing.
[[noreturn]] void refuse_class(const NeedClass& needs, const Cluster& cluster) {
  const DeviceNeed& need = needs.need;
  const DeviceType *largest = nullptr, *fastest = nullptr;
  for (const DeviceGroup& group : cluster.groups()) {
    const DeviceType& type = cluster.type(group.devices.front());
    if (!is_of_kind(need, type)) continue;
    if (!largest || offered(type) > offered(*largest)) largest = &type;
    if (!fastest || type.cost.flops_per_second > fastest->cost.flops_per_second) fastest = &type;
  }
  const std::string who = ranks_text(needs) + needs_word(needs);
  const std::string has = "the cluster has " + types_text(cluster);
  if (!largest)
    refuse(who + "a device " + wanted_text(need), has,
           "name a kind or a type that the cluster has, or map to another cluster");
  if (need.memory > offered(*largest))
    refuse(who + to_text(need.memory) + " of memory on a device " + wanted_text(need),
           "the largest one, '" + largest->name + "', offers " + to_text(offered(*largest)) + ": " +
               counted((need.memory - offered(*largest)).value(), "byte") + " too few",
           "split the model over more ranks, recompute, or map to devices with more memory");
  if (need.flops_per_second > fastest->cost.flops_per_second)
    refuse(who + quantity_text(need.flops_per_second, arithmetic_units()) + " on a device " +
               wanted_text(need),
           "the fastest one, '" + fastest->name + "', does " +
               quantity_text(fastest->cost.flops_per_second, arithmetic_units()),
           "lower the need of compute, or map to faster devices");
  refuse(who + to_text(need.memory) + " of memory and " +
             quantity_text(need.flops_per_second, arithmetic_units()) + " on one device",
         "'" + largest->name + "' has the memory and '" + fastest->name +
             "' the compute, but no type has both",
         "lower one of the needs, or map to other devices");
}

std::vector<int> device_counts(const Cluster& cluster) {
  const auto& types = cluster.description().types;
  std::vector<int> counts(types.size(), 0);
  for (const DeviceGroup& group : cluster.groups())
    for (size_t t = 0; t < types.size(); ++t)
      if (types[t].name == group.type) counts[t] = static_cast<int>(group.devices.size());
  return counts;
}

/// Classes that together need more devices than fit: those that an augmenting path reaches.
[[noreturn]] void refuse_together(const std::vector<NeedClass>& needs, const Cluster& cluster,
                                  const std::vector<bool>& reached) {
  const auto& types = cluster.description().types;
  const std::vector<int> counts = device_counts(cluster);
  int64_t ranks = 0, devices = 0;
  std::vector<bool> fits(types.size(), false);
  for (size_t c = 0; c < needs.size(); ++c) {
    if (!reached[c]) continue;
    ranks += std::ssize(needs[c].ranks);
    for (size_t t = 0; t < types.size(); ++t) fits[t] = fits[t] || needs[c].fits[t];
  }
  std::string names;
  for (size_t t = 0; t < types.size(); ++t) {
    if (!fits[t] || counts[t] == 0) continue;
    devices += counts[t];
    names += (names.empty() ? "'" : ", '") + types[t].name + "'";
  }
  refuse(counted(ranks, "rank") + " need devices of the types " + names,
         "the cluster has " + grouped(devices) +
             " of them, and each rank has a device of its own: " +
             counted(ranks - devices, "device") + " too few",
         "use fewer such ranks, or add devices; the cluster has " + types_text(cluster));
}

/// A flow from classes over types, by augmenting paths.
struct Sharing {
  const std::vector<NeedClass>& needs;
  std::vector<int> free;                // by type
  std::vector<std::vector<int>> given;  // by class and type
  std::vector<bool> reached;            // classes, in the present search

  /// Frees one place for a rank of the class.
  bool place(size_t c) {
    if (reached[c]) return false;
    reached[c] = true;
    for (size_t t = 0; t < free.size(); ++t) {
      if (!needs[c].fits[t] || free[t] == 0) continue;
      --free[t];
      ++given[c][t];
      return true;
    }
    for (size_t t = 0; t < free.size(); ++t) {
      if (!needs[c].fits[t]) continue;
      for (size_t other = 0; other < needs.size(); ++other) {
        if (given[other][t] == 0 || !place(other)) continue;
        --given[other][t];
        ++given[c][t];
        return true;
      }
    }
    return false;
  }
  /// -1, or the class that lacks a device.
  int run() {
    for (size_t c = 0; c < needs.size(); ++c)
      for (size_t i = 0; i < needs[c].ranks.size(); ++i) {
        reached.assign(needs.size(), false);
        if (!place(c)) return static_cast<int>(c);
      }
    return -1;
  }
};

Sharing sharing_of(const std::vector<NeedClass>& needs, const std::vector<int>& devices) {
  return {needs, devices, std::vector(needs.size(), std::vector<int>(devices.size(), 0)), {}};
}

}  // namespace

std::vector<NeedClass> checked_needs(const MappingInput& input, const Cluster& cluster) {
  const auto ranks = std::ssize(input.needs);
  if (ranks > cluster.device_count())
    refuse("the program has " + counted(ranks, "rank") + ", and the cluster has " +
               counted(cluster.device_count(), "device"),
           "each rank has a device of its own",
           "use a plan for " + counted(cluster.device_count(), "rank") +
               " or fewer, or add devices to the cluster");
  using Key = std::tuple<int, std::string, int64_t, double>;
  std::map<Key, NeedClass> classes;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const DeviceNeed& need = input.needs[rank];
    const int kind = need.kind ? static_cast<int>(*need.kind) : -1;
    NeedClass& made = classes[{kind, need.type, need.memory.value(), need.flops_per_second}];
    made.need = need;
    made.ranks.push_back(rank);
  }
  const std::vector<int> counts = device_counts(cluster);
  std::vector<NeedClass> needs;
  for (auto& [key, made] : classes) {
    const auto& types = cluster.description().types;
    for (size_t t = 0; t < types.size(); ++t)
      made.fits.push_back(counts[t] > 0 && is_of_kind(made.need, types[t]) &&
                          made.need.memory <= offered(types[t]) &&
                          made.need.flops_per_second <= types[t].cost.flops_per_second);
    if (std::find(made.fits.begin(), made.fits.end(), true) == made.fits.end())
      refuse_class(made, cluster);
    needs.push_back(std::move(made));
  }
  Sharing sharing = sharing_of(needs, counts);
  if (sharing.run() >= 0) refuse_together(needs, cluster, sharing.reached);
  return needs;
}

std::vector<std::vector<int>> share_types(const std::vector<NeedClass>& needs,
                                          const std::vector<int>& devices) {
  Sharing sharing = sharing_of(needs, devices);
  if (sharing.run() >= 0) return {};
  return std::move(sharing.given);
}

}  // namespace tessera
