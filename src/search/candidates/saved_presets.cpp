#include "search/candidates/saved_presets.h"

#include <algorithm>
#include <iterator>

#include "ops/operator.h"
#include "plan/preset.h"

namespace tessera {
namespace {

constexpr std::array kKinds{Recompute::Kind::kNone, Recompute::Kind::kSelective,
                            Recompute::Kind::kFull};
constexpr std::array<const char*, 3> kRecomputeTexts{"", ",recompute=selective", ",recompute=full"};

bool is_forward(const Graph& graph, OpId op) {
  return op.index >= 0 && graph.op(op).role == Role::kForward;
}

/// The bytes of results of the forward that the backward reads, or that it computes others from.
double kept_bytes(const Graph& graph, const std::vector<bool>& again) {
  const auto is_again = [&](ValueId value) { return !again.empty() && again[value.index]; };
  double bytes = 0;
  for (int i = 0; i < std::ssize(graph.values()); ++i) {
    const Value& value = graph.value({i});
    if (!is_forward(graph, value.producer) || is_again({i})) continue;
    const bool is_kept = std::ranges::any_of(value.users, [&](OpId user) {
      return graph.op(user).role == Role::kBackward ||
             std::ranges::any_of(graph.op(user).outputs, is_again);
    });
    if (is_kept) bytes += static_cast<double>(byte_size(value.type).value());
  }
  return bytes;
}

double seconds_of(const Graph& graph, const Op& op, const DeviceCost& device) {
  if (!op.regions.empty()) return 0;
  const OpView shape = view(graph, op);
  const Work work = shape.definition->work(shape);
  return std::max(work.flops.value() / device.flops_per_second,
                  static_cast<double>(work.bytes.value()) / device.bytes_per_second);
}

int64_t data_degree(const std::string& preset) {
  for (const PresetAxis& axis : parse_preset(preset).axes)
    if (axis.name == kDataAxis) return axis.size.value_or(2);
  return 1;
}

/// Without the number of micro-batches, which presets have at the end.
std::string degrees_of(const std::string& name) {
  return name.substr(0, name.find(",micro_batches="));
}

}  // namespace

std::array<RecomputeShares, 3> recompute_shares(const Graph& graph, const DeviceCost& device) {
  double all = 0;
  for (const Op& op : graph.ops()) all += seconds_of(graph, op, device);
  const double kept = kept_bytes(graph, {});
  std::array<RecomputeShares, 3> shares;
  for (size_t i = 1; i < kKinds.size(); ++i) {
    const std::vector<bool> again = recomputed_values(graph, {.kind = kKinds[i]});
    double added = 0;
    for (const Op& op : graph.ops())
      if (std::ranges::any_of(op.outputs, [&](ValueId v) { return bool{again[v.index]}; }))
        added += seconds_of(graph, op, device);
    if (kept > 0) shares[i].kept = kept_bytes(graph, again) / kept;
    if (all > 0) shares[i].added = added / all;
  }
  return shares;
}

SavedPresets::SavedPresets(const Graph& graph, const DeviceCost& device, bool has_recompute)
    : shares_(recompute_shares(graph, device)), has_recompute_(has_recompute) {
  double trained = 0, all = 0;
  for (const Variable& variable : graph.variables()) {
    const auto bytes = static_cast<double>(byte_size(graph.type(variable.value)).value());
    all += bytes;
    if (variable.trainable) trained += bytes;
  }
  if (all > 0) trained_share_ = trained / all;
}

void SavedPresets::add(const Misfit& misfit) {
  const int64_t data = data_degree(misfit.name);
  const std::string degrees = degrees_of(misfit.name);
  for (int zero = 0; zero <= 3; ++zero) {
    // Without sums over micro-batches zero 2 is zero 1.
    if ((zero > 0 && data == 1) || (zero == 2 && misfit.micro_batches == 1)) continue;
    for (size_t recompute = 0; recompute < kKinds.size(); ++recompute) {
      if (zero == 0 && recompute == 0) continue;
      if (recompute > 0 && (!has_recompute_ || shares_[recompute].kept >= 1)) continue;
      std::string name = misfit.name;
      if (zero > 0) name += "," + std::string(kZeroKey) + "=" + std::to_string(zero);
      const Seconds step(misfit.step.value() * (1 + shares_[recompute].added));
      open_.push_back({name + kRecomputeTexts[recompute], degrees, data, misfit.micro_batches, zero,
                       recompute, step, misfit.need});
    }
  }
  std::ranges::stable_sort(open_, {}, [](const Saved& each) {
    // zero 1 adds nothing; the others exchange more.
    return std::pair(each.step, each.zero == 0 ? 1 : each.zero == 1 ? 0 : each.zero);
  });
}

/// A lower bound of the bytes of the fullest rank where nothing is computed again.
double SavedPresets::bytes_without_recompute(const Saved& saved) const {
  const double part = 1 - 1 / static_cast<double>(saved.data);
  const auto variables = static_cast<double>(saved.misfit.variables.value());
  const double trained = trained_share_ * variables;
  double bytes = static_cast<double>(saved.misfit.all().value());
  // State, and gradients when they are reduced.
  if (saved.zero >= 1) bytes -= part * variables;
  if (saved.zero >= 2 && saved.micro_batches > 1) bytes -= part * trained;  // sums of gradients
  if (saved.zero == 3) bytes -= part * trained;                             // parameters
  return bytes;
}

double SavedPresets::largest_saved_part(const Saved& saved) const {
  const auto next = saved_part_.upper_bound({saved.degrees, saved.recompute, saved.micro_batches});
  if (next != saved_part_.begin()) {
    const auto& [key, part] = *std::prev(next);
    if (std::get<0>(key) == saved.degrees && std::get<1>(key) == saved.recompute) return part;
  }
  return 1 - shares_[saved.recompute].kept;
}

bool SavedPresets::may_fit(const Saved& saved) const {
  const auto arena = static_cast<double>(saved.misfit.arena.value());
  return bytes_without_recompute(saved) - largest_saved_part(saved) * arena <=
         static_cast<double>(saved.misfit.capacity.value());
}

bool SavedPresets::saves_at_least(const Saved& more, const Saved& less) {
  return more.degrees == less.degrees && more.micro_batches >= less.micro_batches &&
         more.zero >= less.zero && more.recompute >= less.recompute;
}

std::vector<std::string> SavedPresets::take(int64_t count, const std::optional<Seconds>& limit) {
  std::erase_if(open_, [&](const Saved& saved) {
    return (limit && saved.step >= *limit) || !may_fit(saved);
  });
  std::vector<std::string> names;
  for (auto each = open_.begin(); each != open_.end() && std::ssize(names) < count;) {
    names.push_back(each->name);
    taken_.emplace(each->name, *each);
    each = open_.erase(each);
  }
  return names;
}

void SavedPresets::learn(const std::string& name, const RankMemoryNeed& need) {
  const auto found = taken_.find(name);
  if (found == taken_.end()) return;
  const Saved& taken = found->second;
  const bool is_pipeline = taken.degrees.starts_with(kPipelineKey);
  std::erase_if(open_, [&](const Saved& saved) {
    if (!need.fits()) return saves_at_least(taken, saved);
    // A pipeline of more micro-batches may be faster.
    return saves_at_least(saved, taken) &&
           (!is_pipeline || saved.micro_batches == taken.micro_batches);
  });
  // What zero saves of an arena is not known as well.
  if (taken.recompute == 0 || taken.zero > 1 || taken.misfit.arena == Bytes(0)) return;
  saved_part_[{taken.degrees, taken.recompute, taken.micro_batches}] =
      (bytes_without_recompute(taken) - static_cast<double>(need.all().value())) /
      static_cast<double>(taken.misfit.arena.value());
}

}  // namespace tessera
