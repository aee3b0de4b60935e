#include "planner/search/internal/candidates/memory_saving_presets.h"

#include <algorithm>
#include <iterator>

#include "ir/ops/operator.h"
#include "planner/placement/search_policy.h"
#include "planner/search/candidates/long_steps.h"

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

int64_t degree_of(const Preset& preset, std::string_view axis) {
  const auto found = std::ranges::find(preset.axes, axis, &PresetAxis::name);
  return found == preset.axes.end() ? 1 : found->size.value_or(2);
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

UpdateSavedByZero::UpdateSavedByZero(const Graph& graph, const DeviceCost& device) {
  for (const Op& op : graph.ops())
    if (op.role == Role::kOptimizer) whole_ += Seconds(seconds_of(graph, op, device));
}

Seconds UpdateSavedByZero::seconds(const Preset& preset) const {
  if (preset.zero > 0) return Seconds(0);
  const auto data = static_cast<double>(degree_of(preset, kDataAxis));
  const auto parts = static_cast<double>(preset.stages * degree_of(preset, kTensorAxis));
  return Seconds(whole_.value() / parts * (1 - 1 / data));
}

Seconds UpdateSavedByZero::seconds(const Candidate& candidate) const {
  return candidate.source == Candidate::Source::kPreset ? seconds(parse_preset(candidate.name))
                                                        : Seconds(0);
}

MemorySavingPresets::MemorySavingPresets(const Graph& graph, const Cluster& cluster,
                                         const Choices& choices)
    : cluster_(cluster),
      choices_(choices),
      updates_(graph, cluster.type(0).cost),
      rows_(batch_rows(graph)),
      shares_(recompute_shares(graph, cluster.type(0).cost)) {
  double trained = 0, all = 0;
  for (const Variable& variable : graph.variables()) {
    const auto bytes = static_cast<double>(byte_size(graph.type(variable.value)).value());
    all += bytes;
    if (variable.trainable) trained += bytes;
  }
  if (all > 0) trained_share_ = trained / all;
}

void MemorySavingPresets::add(const OverMemory& over_memory) {
  const std::string degrees = degrees_of(over_memory.name);
  compiled_.emplace(degrees, over_memory.micro_batches);
  std::erase_if(open_, [&](const Saved& saved) {
    return saved.degrees == degrees && saved.micro_batches == over_memory.micro_batches;
  });
  add_variants(over_memory, 1);
  const int64_t data = degree_of(parse_preset(over_memory.name), kDataAxis);
  if (choices_.micro_batches && over_memory.micro_batches == 1 &&
      !degrees.starts_with(kPipelineKey))
    for (int64_t count = 2; count <= kSearchPolicy.whole_micro_batches; count *= 2) {
      if (rows_ % (count * data) != 0 || compiled_.contains({degrees, count})) continue;
      OverMemory more = over_memory;
      more.name += ",micro_batches=" + std::to_string(count);
      more.micro_batches = count;
      more.need.arena = Bytes(over_memory.need.arena.value() / count);
      add_variants(more, count);
    }
  sort();
}

/// Estimates are as much too low as the one that was most so, of those with the same memory-saving
/// decisions.
bool MemorySavingPresets::is_expected_to_fit(const Saved& saved, double memory) const {
  const auto known = too_low_.find({saved.zero, saved.recompute});
  return saved.bytes * (known == too_low_.end() ? 1 : known->second) <=
         memory * static_cast<double>(saved.over_memory.capacity.value());
}

void MemorySavingPresets::sort() {
  std::ranges::stable_sort(open_, {}, [&](const Saved& each) {
    // zero 1 adds nothing; the others exchange more.
    const int exchanged = each.zero == 0 ? 1 : each.zero == 1 ? 0 : each.zero;
    return std::tuple(!is_expected_to_fit(each), each.expected, exchanged);
  });
}

/// A preset that does not fit with zero and recompute; its arena is a `split`-th part of that of a
/// compiled one.
void MemorySavingPresets::add_variants(const OverMemory& over_memory, int64_t split) {
  const Preset preset = parse_preset(over_memory.name);
  const int64_t data = degree_of(preset, kDataAxis);
  const Seconds update = updates_.seconds(preset);
  for (int zero = 0; zero <= 3; ++zero) {
    // Without sums over micro-batches zero 2 is zero 1.
    if ((zero > 0 && (data == 1 || !choices_.zero)) ||
        (zero == 2 && over_memory.micro_batches == 1))
      continue;
    for (size_t recompute = 0; recompute < kKinds.size(); ++recompute) {
      if (zero == 0 && recompute == 0) continue;
      if (recompute > 0 && (!choices_.recompute || shares_[recompute].kept >= 1)) continue;
      std::string name = over_memory.name;
      if (zero > 0) name += "," + std::string(kZeroKey) + "=" + std::to_string(zero);
      const Seconds bound = zero > 0 ? over_memory.step - update : over_memory.step;
      const Seconds step(bound.value() * (1 + shares_[recompute].added));
      Saved saved{.name = name + kRecomputeTexts[recompute],
                  .degrees = degrees_of(over_memory.name),
                  .data = data,
                  .micro_batches = over_memory.micro_batches,
                  .zero = zero,
                  .recompute = recompute,
                  .step = step,
                  .over_memory = over_memory.need,
                  .split = split};
      estimate(saved, preset);
      open_.push_back(std::move(saved));
    }
  }
}

void MemorySavingPresets::estimate(Saved& saved, const Preset& preset) const {
  const RankMemoryNeed& need = saved.over_memory;
  const double others = 1 - 1 / static_cast<double>(saved.data);
  const auto variables = static_cast<double>(need.variables.value());
  const double trained = trained_share_ * variables;
  const bool has_sums = saved.micro_batches > 1;
  auto activations = static_cast<double>(need.arena.value());
  if (has_sums && saved.split == 1) activations = std::max(activations - trained, 0.0);
  activations *= shares_[saved.recompute].kept;
  const bool is_divided = saved.zero >= 2 || (saved.zero == 1 && !has_sums);
  const double gradients = is_divided ? (1 - others) * trained : trained;
  // Sums are kept during all passes; else gradients come as activations go.
  double bytes = static_cast<double>((need.all() - need.arena).value()) +
                 (has_sums ? activations + gradients : std::max(activations, gradients));
  if (saved.zero >= 1) bytes -= others * (variables - trained);
  if (saved.zero == 3) bytes -= others * trained;
  saved.bytes = bytes;
  // Of the parameters of a rank, beside one sum of their gradients: zero 2 sums each micro-batch,
  // zero 3 gathers in both passes of each as well.
  const double further = saved.zero == 2   ? static_cast<double>(saved.micro_batches - 1)
                         : saved.zero == 3 ? static_cast<double>(3 * saved.micro_batches - 2)
                                           : 0;
  int64_t ranks = 1;
  for (const PresetAxis& axis : preset.axes) ranks *= axis.size.value_or(1);
  const auto last = static_cast<DeviceId>(std::min<int64_t>(ranks, cluster_.device_count()) - 1);
  const double seconds = further * others * trained / cluster_.link(0, last).bytes_per_second;
  saved.expected = saved.step + Seconds(further > 0 ? seconds : 0);
}

/// A lower bound of the bytes of the fullest rank where nothing is computed again.
double MemorySavingPresets::bytes_without_recompute(const Saved& saved) const {
  const double part = 1 - 1 / static_cast<double>(saved.data);
  const auto variables = static_cast<double>(saved.over_memory.variables.value());
  const double trained = trained_share_ * variables;
  double bytes = static_cast<double>(saved.over_memory.all().value());
  // State, and gradients when they are reduced.
  if (saved.zero >= 1) bytes -= part * variables;
  if (saved.zero >= 2 && saved.micro_batches > 1) bytes -= part * trained;  // sums of gradients
  if (saved.zero == 3) bytes -= part * trained;                             // parameters
  return bytes;
}

double MemorySavingPresets::largest_saved_part(const Saved& saved) const {
  const auto next = saved_part_.upper_bound({saved.degrees, saved.recompute, saved.micro_batches});
  if (next != saved_part_.begin()) {
    const auto& [key, part] = *std::prev(next);
    if (std::get<0>(key) == saved.degrees && std::get<1>(key) == saved.recompute) return part;
  }
  return 1 - shares_[saved.recompute].kept;
}

bool MemorySavingPresets::may_fit(const Saved& saved) const {
  const auto arena = static_cast<double>(saved.over_memory.arena.value());
  return bytes_without_recompute(saved) - largest_saved_part(saved) * arena <=
         static_cast<double>(saved.over_memory.capacity.value());
}

bool MemorySavingPresets::saves_at_least(const Saved& more, const Saved& less) {
  return more.degrees == less.degrees && more.micro_batches >= less.micro_batches &&
         more.zero >= less.zero && more.recompute >= less.recompute;
}

std::vector<std::string> MemorySavingPresets::take(int64_t count,
                                                   const std::optional<Seconds>& limit) {
  std::erase_if(open_, [&](const Saved& saved) {
    return (limit &&
            (saved.step >= *limit || !is_expected_to_fit(saved, kSearchPolicy.memory_doubt))) ||
           !may_fit(saved);
  });
  std::vector<std::string> names;
  for (auto each = open_.begin(); each != open_.end() && std::ssize(names) < count;) {
    names.push_back(each->name);
    taken_.emplace(each->name, *each);
    each = open_.erase(each);
  }
  return names;
}

void MemorySavingPresets::learn(const std::string& name, const RankMemoryNeed& need) {
  const auto found = taken_.find(name);
  if (found == taken_.end()) return;
  const Saved& taken = found->second;
  double& too_low = too_low_.try_emplace({taken.zero, taken.recompute}, 1).first->second;
  too_low = std::max(too_low, static_cast<double>(need.all().value()) / taken.bytes);
  sort();
  const bool is_pipeline = taken.degrees.starts_with(kPipelineKey);
  std::erase_if(open_, [&](const Saved& saved) {
    if (!need.fits()) return saves_at_least(taken, saved);
    // A pipeline of more micro-batches may be faster.
    return saves_at_least(saved, taken) &&
           (!is_pipeline || saved.micro_batches == taken.micro_batches);
  });
  // What zero and micro-batches save of an arena is not known as well.
  if (taken.recompute == 0 || taken.zero > 1 || taken.split > 1 ||
      taken.over_memory.arena == Bytes(0))
    return;
  saved_part_[{taken.degrees, taken.recompute, taken.micro_batches}] =
      (bytes_without_recompute(taken) - static_cast<double>(need.all().value())) /
      static_cast<double>(taken.over_memory.arena.value());
}

}  // namespace tessera
