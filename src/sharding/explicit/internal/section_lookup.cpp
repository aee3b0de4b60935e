#include "sharding/explicit/internal/section_lookup.h"

#include <algorithm>

#include "base/error.h"
#include "sharding/explicit/name_patterns.h"

namespace tessera {

SectionLookup::SectionLookup(const Shardings& shardings, std::string_view name) : name_(name) {
  const ShardingSection* own = shardings.find(name);
  const ShardingSection* training = shardings.find(kTrainSection);
  has_own_kept_ = own != nullptr;
  if (own) add(*own, true);
  if (const ShardingSection* keeps = own ? own : training) kept_ = keeps->kept;
  if (training && name != kTrainSection) add(*training, false);
}

std::vector<std::string> SectionLookup::kept() const {
  std::vector<std::string> names;
  for (const std::string& pattern : kept_)
    for (std::string& name : names_of_pattern(pattern)) names.push_back(std::move(name));
  return names;
}

void SectionLookup::add(const ShardingSection& section, bool is_own) {
  add_all(section.ops, is_own, "op", ops_);
  add_all(section.values, is_own, "value", values_);
  add_all(section.copies, is_own, "value", copies_);
  // The stages of a section are complete: a short pattern of it goes before a long one of training.
  if (stages_.empty()) add_stages(section.stages);
}

void SectionLookup::add_all(const std::vector<PatternDecision>& decisions, bool is_own,
                            const char* kind, Entries& entries) const {
  for (const PatternDecision& decision : decisions)
    for (const std::string& pattern : decision.names)
      for (std::string& name : names_of_pattern(pattern)) {
        const auto [found, is_new] = entries.try_emplace(name, Entry{&decision.text, is_own});
        if (!is_new && found->second.is_own == is_own)
          throw UserError(
              "the section '" + name_ + "' of the plan's shardings has the " + kind + " '" + name +
                  "' twice: as '" + *found->second.text + "' and '" + decision.text + "'",
              "a decision is taken once", "remove one of the two", ExitCode::kBadConfig);
      }
}

void SectionLookup::add_stages(const std::vector<PatternDecision>& stages) {
  for (const PatternDecision& stage : stages)
    for (const std::string& pattern : stage.names)
      for (const std::string& name : names_of_pattern(pattern)) stages_[name] = &stage.text;
}

const std::string* SectionLookup::stage(const std::string& op) const {
  if (const auto exact = stages_.find(op); exact != stages_.end()) return exact->second;
  for (size_t point = op.rfind('.'); point != std::string::npos && point > 0;
       point = op.rfind('.', point - 1))
    if (const auto found = stages_.find(op.substr(0, point) + ".*"); found != stages_.end())
      return found->second;
  const auto all = stages_.find("*");
  return all == stages_.end() ? nullptr : all->second;
}

const std::string* SectionLookup::find(Entries& entries, const std::string& name) {
  const auto found = entries.find(name);
  if (found == entries.end()) return nullptr;
  found->second.is_used = true;
  return found->second.text;
}

std::vector<std::string> SectionLookup::unused(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries)
    if (entry.is_own && !entry.is_used) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tessera
