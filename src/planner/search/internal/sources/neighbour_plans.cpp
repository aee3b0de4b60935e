#include "planner/search/internal/sources/neighbour_plans.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/placement/search_policy.h"
#include "planner/search/internal/sources/searched_placements.h"

namespace tessera {
namespace {

constexpr std::string_view kCombine = "combine";
constexpr std::string_view kBucketKey = "bucket_mib", kPassesKey = "disabled_passes";
// In names.
constexpr std::string_view kBucketText = "bucket of ", kCombinedText = "combined";

/// Does this part of a name say the decision `key`?
bool says(std::string_view part, std::string_view key) {
  if (part.starts_with(std::string(key) + "=")) return true;
  if (key == kBucketKey) return part.starts_with(kBucketText);
  return key == kPassesKey && part.ends_with(kCombinedText);
}

/// The name with `text` for what it said of the decision, or after it.
std::string with_change(std::string_view name, std::string_view key, const std::string& text) {
  std::string made;
  bool is_said = false;
  for (size_t begin = 0; begin < name.size();) {
    const size_t end = std::min(name.find(',', begin), name.size());
    const size_t word = std::min(name.find_first_not_of(", ", begin), end);
    const std::string_view part = name.substr(word, end - word);
    if (!says(part, key)) {
      made += name.substr(begin, end - begin);
    } else if (!is_said) {
      made += std::string(name.substr(begin, word - begin)) + text;
      made +=
          part.substr(std::min(part.find(" ("), part.size()));  // the number of an identical plan
      is_said = true;
    }
    if (end < name.size()) made += ',';
    begin = end + 1;
  }
  return is_said ? made : made + ", " + text;
}

/// Adds changes of one decision each.
class Changes {
 public:
  Changes(const PlanConstraints& constraints, const Candidate& candidate)
      : constraints_(constraints), candidate_(candidate) {}

  /// `key` is the decision that is changed, as plans name it.
  template <typename Edit>
  void add(std::string_view key, const std::string& text, const Edit& edit) {
    if (fixes_decision(constraints_, key)) return;
    Candidate changed = candidate_;
    changed.name = with_change(candidate_.name, key, text);
    changed.plan.name = changed.name;
    edit(changed.plan);
    changed.marked.reset();                          // it does not have the change
    if (!changed.estimate) changed.shorter.clear();  // they have the plan before the change
    list_.push_back(std::move(changed));
  }

  std::vector<Candidate> take() { return std::move(list_); }

 private:
  const PlanConstraints& constraints_;
  const Candidate& candidate_;
  std::vector<Candidate> list_;
};

void add_pipelines(const PlanRequest& request, const Plan& plan, Changes& changes) {
  if (plan.meshes.size() < 2) return;
  const int64_t rows = batch_rows(request.graph);
  // Explicit shardings of one micro-batch do not say what several would divide.
  const bool is_explicit_for_one = plan.shardings && plan.micro_batches == 1;
  for (int64_t count : {2 * plan.micro_batches, plan.micro_batches / 2})
    if (count > 0 && rows % count == 0 && !is_explicit_for_one)
      changes.add("micro_batches", "micro_batches=" + std::to_string(count), [&](Plan& changed) {
        changed.micro_batches = count;
        if (count == 1) changed.schedule = Plan().schedule;  // one micro-batch has no order
      });
  if (plan.schedule == PipelineKind::kOneForwardOneBackward && plan.micro_batches > 1)
    changes.add("schedule", "schedule=zb-h1",
                [](Plan& changed) { changed.schedule = PipelineKind::kZeroBubbleH1; });
}

void add_exchanges(const Plan& plan, Changes& changes) {
  for (int64_t bytes : {plan.bucket.value() / kSearchPolicy.bucket_step,
                        kSearchPolicy.bucket_step * plan.bucket.value()})
    changes.add(kBucketKey, std::string(kBucketText) + to_text(Bytes(bytes)),
                [&](Plan& changed) { changed.bucket = Bytes(bytes); });
  const bool combines = std::ranges::count(plan.disabled_passes, kCombine) == 0;
  changes.add(kPassesKey, (combines ? "not " : "") + std::string(kCombinedText),
              [&](Plan& changed) {
                if (combines)
                  changed.disabled_passes.emplace_back(kCombine);
                else
                  std::erase(changed.disabled_passes, kCombine);
              });
  if (plan.collective_matmul == 1)
    changes.add("collective_matmul", "collective_matmul=auto",
                [](Plan& changed) { changed.collective_matmul = kAutoChunks; });
}

}  // namespace

std::vector<Candidate> neighbour_plans(const PlanRequest& request,
                                       const PlanConstraints& constraints,
                                       const Candidate& candidate, int64_t count) {
  Changes changes(constraints, candidate);
  add_pipelines(request, candidate.plan, changes);
  add_exchanges(candidate.plan, changes);
  std::vector<Candidate> list = changes.take();
  const int64_t left = count - std::ssize(list);
  if (left < 0) list.resize(static_cast<size_t>(count));
  if (left > 0 && candidate.source == Candidate::Source::kSearch)
    std::ranges::move(placement_neighbours(request, constraints, candidate, left),
                      std::back_inserter(list));
  return list;
}

std::vector<Candidate> with_wider_prefetch(const PlanConstraints& constraints,
                                           const Candidate& candidate, Bytes largest) {
  constexpr int64_t kMiB = 1 << 20;  // plans say whole ones
  Changes changes(constraints, candidate);
  if (largest <= candidate.plan.prefetch_window || candidate.plan.prefetch_window == Bytes(0))
    return {};
  for (const int64_t count : {2, 8}) {
    const int64_t mib = (count * largest.value() + kMiB - 1) / kMiB;
    changes.add("prefetch_mib", "prefetch_mib=" + std::to_string(mib),
                [&](Plan& changed) { changed.prefetch_window = Bytes(mib * kMiB); });
  }
  return changes.take();
}

}  // namespace tessera
