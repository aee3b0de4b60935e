#include "base/files/config_table.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/text.h"

namespace tessera {

namespace {

std::string from_to(const std::string& smallest, const std::string& largest) {
  return smallest + " to " + largest;
}

/// A number such as 1e6 or 16.0 as an integer of a range; "" for what is none.
std::string whole_number(const Document& value, int64_t smallest, int64_t largest) {
  if (value.is_int() || !value.is_number()) return {};
  const double number = value.as_double();
  if (std::trunc(number) != number || std::abs(number) > 1e15) return {};
  const auto whole = static_cast<int64_t>(number);
  return whole < smallest || whole > largest ? "" : std::to_string(whole);
}

Document list_of(const std::vector<std::string>& texts) {
  return Document::List(texts.begin(), texts.end());
}

}  // namespace

std::string ConfigOrigin::at(const std::string& key) const {
  const auto inside = overridden.lower_bound(key + ".");
  const bool contains_one = inside != overridden.end() && inside->starts_with(key + ".");
  return overridden.contains(key) || contains_one ? "--set" : file;
}

ConfigTable::ConfigTable(const Document* table, std::string path, ConfigOrigin origin,
                         std::vector<ReadKey>* keys)
    : table_(table),
      path_(std::move(path)),
      origin_(std::move(origin)),
      listed_(path_),
      keys_(keys) {
  if (table_ && !table_->is_table()) refuse_what_is_no_table();
}

void ConfigTable::refuse_what_is_no_table() const {
  const std::string origin = origin_.at(path_);
  const std::string what =
      origin + ": " + (path_.empty() ? "the whole" : "'" + path_ + "'") + " is " + kind_of(*table_);
  if (origin.ends_with(".json"))
    throw UserError(what, "it must be an object", "write {\"KEY\": VALUE, ...} in its place",
                    ExitCode::kBadConfig);
  throw UserError(what, "it must be a table", "write [" + path_ + "] and its keys below it",
                  ExitCode::kBadConfig);
}

const Document* ConfigTable::find(const std::string& key) {
  asked_.insert(key);
  return table_ ? table_->find(key) : nullptr;
}

const Document* ConfigTable::find(const ConfigKey& key, std::string type, const Document& fallback,
                                  std::string range) {
  if (keys_)
    keys_->push_back({listed(key.name), std::move(type), to_json(fallback), std::move(range),
                      std::string(key.meaning), std::string(key.example)});
  return find(key.name);
}

const Document* ConfigTable::raw(const ConfigKey& key, const ValueForm& form) {
  if (keys_)
    keys_->push_back({listed(form.listed.empty() ? key.name : form.listed), form.type,
                      form.fallback, form.range, std::string(key.meaning),
                      std::string(key.example)});
  return find(key.name);
}

void ConfigTable::refuse(const std::string& key, const Document& found, const std::string& legal,
                         const std::string& close) const {
  throw UserError(
      origin_of(key) + ": " + full(key) + " = " + to_json(found) + " is not possible",
      full(key) + " must be " + legal,
      close.empty() ? "set " + full(key) + " to such a value" : "did you mean '" + close + "'?",
      ExitCode::kBadConfig);
}

int64_t ConfigTable::integer(const ConfigKey& key, int64_t fallback, int64_t smallest,
                             int64_t largest) {
  const std::string range = from_to(std::to_string(smallest), std::to_string(largest));
  const Document* found = find(key, "integer", fallback, range);
  if (!found) return fallback;
  if (!found->is_int() || found->as_int() < smallest || found->as_int() > largest)
    refuse(key.name, *found, "an integer from " + range, whole_number(*found, smallest, largest));
  return found->as_int();
}

double ConfigTable::number(const ConfigKey& key, double fallback, double smallest, double largest) {
  const std::string range = from_to(double_text(smallest), double_text(largest));
  const Document* found = find(key, "number", fallback, range);
  if (!found) return fallback;
  if (!found->is_number() || !(found->as_double() >= smallest && found->as_double() <= largest))
    refuse(key.name, *found, "a number from " + range);
  return found->as_double();
}

bool ConfigTable::boolean(const ConfigKey& key, bool fallback) {
  const Document* found = find(key, "true or false", fallback);
  if (!found) return fallback;
  if (!found->is_bool()) refuse(key.name, *found, "true or false");
  return found->as_bool();
}

std::string ConfigTable::text(const ConfigKey& key, const std::string& fallback) {
  const Document* found = find(key, "text", fallback);
  if (!found) return fallback;
  if (!found->is_string()) refuse(key.name, *found, "a text");
  return found->as_string();
}

std::string ConfigTable::choice(const ConfigKey& key, const std::string& fallback,
                                const std::vector<std::string>& choices,
                                std::span<const Renamed> renamed, std::span<const KeyAlias> alias) {
  const std::string range = "one of " + join(choices, ", ");
  const Document* found = find(key, "text", fallback, range);
  if (!found) return fallback;
  for (const auto& [before, now] : renamed)
    if (*found == Document(std::string(before)))
      throw UserError(
          origin_of(key.name) + ": " + full(key.name) + " = " + to_json(*found) + " has a new name",
          "the value '" + std::string(before) + "' is now called '" + std::string(now) + "'",
          "set " + full(key.name) + " to '" + std::string(now) + "'", ExitCode::kBadConfig);
  for (const KeyAlias& name : alias)
    if (*found == Document(std::string(name.theirs)))
      throw UserError(
          origin_of(key.name) + ": " + full(key.name) + " = " + to_json(*found) +
              " is not possible",
          "'" + std::string(name.theirs) + "' is called '" + std::string(name.ours) + "' here",
          "set " + full(key.name) + " to '" + std::string(name.ours) + "'", ExitCode::kBadConfig);
  if (!found->is_string()) refuse(key.name, *found, range);
  if (std::find(choices.begin(), choices.end(), found->as_string()) == choices.end())
    refuse(key.name, *found, range, nearest(found->as_string(), choices));
  return found->as_string();
}

std::vector<std::string> ConfigTable::texts(const ConfigKey& key,
                                            const std::vector<std::string>& fallback) {
  const Document* found = find(key, "list of texts", list_of(fallback));
  if (!found) return fallback;
  if (found->is_string()) return {found->as_string()};
  std::vector<std::string> list;
  if (!found->is_list()) refuse(key.name, *found, "a text or a list of texts");
  for (const Document& item : found->as_list()) {
    if (!item.is_string()) refuse(key.name, *found, "a text or a list of texts");
    list.push_back(item.as_string());
  }
  return list;
}

ConfigTable ConfigTable::table(const ConfigKey& key, const std::string& listed_key) {
  ConfigTable found(find(key.name), full(key.name), origin_, keys_);
  found.listed_ = listed(listed_key.empty() ? key.name : listed_key);
  return found;
}

ConfigTable ConfigTable::inside(const Document& value, const std::string& key,
                                const std::string& listed_key) const {
  ConfigTable found(&value, full(key), origin_, keys_);
  found.listed_ = listed(listed_key);
  return found;
}

void ConfigTable::refuse_renamed(std::span<const Renamed> keys) const {
  if (!table_) return;
  for (const auto& [before, now] : keys) {
    if (!table_->find(std::string(before))) continue;
    const std::string name = full(std::string(now));
    throw UserError(origin_of(std::string(before)) + ": the key '" + full(std::string(before)) +
                        "' has a new name",
                    "it is now called '" + name + "'", "write '" + name + "' instead",
                    ExitCode::kBadConfig);
  }
}

void ConfigTable::refuse_alias(std::span<const KeyAlias> keys) const {
  if (!table_) return;
  for (const auto& [theirs, ours, note] : keys) {
    const std::string key(theirs);
    if (asked_.contains(key) || !table_->find(key)) continue;
    throw UserError(origin_of(key) + ": unknown key '" + full(key) + "'",
                    "it is called '" + std::string(ours) + "' here",
                    "write '" + std::string(ours) + "' instead" +
                        (note.empty() ? "" : ": " + std::string(note)),
                    ExitCode::kBadConfig);
  }
}

void ConfigTable::refuse_foreign(std::span<const ForeignKey> keys) const {
  if (!table_) return;
  for (const auto& [theirs, why, fix] : keys) {
    const std::string key(theirs);
    if (asked_.contains(key) || !table_->find(key)) continue;
    throw UserError(origin_of(key) + ": unknown key '" + full(key) + "'", std::string(why),
                    std::string(fix), ExitCode::kBadConfig);
  }
}

void ConfigTable::finish() const {
  if (!table_) return;
  for (const auto& [key, value] : table_->as_table()) {
    if (asked_.contains(key)) continue;
    const std::string close = nearest(key, asked_);
    const std::vector<std::string> legal(asked_.begin(), asked_.end());
    throw UserError(
        origin_of(key) + ": unknown key '" + full(key) + "'",
        "legal keys here are " + join(legal, ", "),
        close.empty() ? "remove it or use one of these" : "did you mean '" + full(close) + "'?",
        ExitCode::kBadConfig);
  }
}

}  // namespace tessera
