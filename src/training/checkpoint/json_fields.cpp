#include "training/checkpoint/json_fields.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr const char* kFix = "write the file again with a tool that keeps to the format";

}  // namespace

UserError bad_data(const std::string& what, const std::string& why, const std::string& fix) {
  return {what, why, fix, ExitCode::kBadData};
}

Document parse_json_strictly(std::string_view text, const std::string& file) try {
  // The parser takes a zero byte for the end, and would ignore what follows.
  if (text.find('\0') != std::string_view::npos)
    throw bad_data("'" + file + "' holds no valid JSON",
                   "it has a zero byte at byte " + std::to_string(text.find('\0')) + " of the JSON",
                   kFix);
  return parse_json(text, file);
} catch (const UserError& error) {
  throw bad_data(error.what_happened(), error.why(), kFix);
}

JsonFields::JsonFields(const Document& document, std::string file, std::string where)
    : table_(document), file_(std::move(file)), where_(std::move(where)) {
  if (!document.is_table())
    throw bad_data("'" + file_ + "': " + where_ + " is " + kind_of(document), "it must be a table",
                   kFix);
}

void JsonFields::refuse(const std::string& key, const Document& found,
                        const std::string& legal) const {
  throw bad_data("'" + file_ + "': " + where_ + " has " + key + " = " + to_json(found),
                 key + " must be " + legal, kFix);
}

const Document& JsonFields::any(const std::string& key) {
  asked_.insert(key);
  const Document* found = table_.find(key);
  if (found == nullptr)
    throw bad_data("'" + file_ + "': " + where_ + " has no " + key, "the format requires it", kFix);
  return *found;
}

const Document* JsonFields::find(const std::string& key) {
  asked_.insert(key);
  return table_.find(key);
}

int64_t JsonFields::count(const std::string& key) {
  const Document& found = any(key);
  if (!found.is_int() || found.as_int() < 0) refuse(key, found, "an integer of 0 or more");
  return found.as_int();
}

std::vector<int64_t> JsonFields::counts(const std::string& key) {
  const Document& found = any(key);
  const auto is_count = [](const Document& item) { return item.is_int() && item.as_int() >= 0; };
  if (!found.is_list() || !std::all_of(found.as_list().begin(), found.as_list().end(), is_count))
    refuse(key, found, "a list of integers of 0 or more");
  std::vector<int64_t> values;
  for (const Document& item : found.as_list()) values.push_back(item.as_int());
  return values;
}

const std::string& JsonFields::text(const std::string& key) {
  const Document& found = any(key);
  if (!found.is_string()) refuse(key, found, "a string");
  return found.as_string();
}

const Document::Table& JsonFields::table(const std::string& key) {
  const Document& found = any(key);
  if (!found.is_table()) refuse(key, found, "a table");
  return found.as_table();
}

const Document::List& JsonFields::list(const std::string& key) {
  const Document& found = any(key);
  if (!found.is_list()) refuse(key, found, "a list");
  return found.as_list();
}

void JsonFields::finish() const {
  for (const auto& [key, value] : table_.as_table()) {
    if (asked_.contains(key)) continue;
    const std::string best = nearest(key, asked_);
    const std::vector<std::string> legal(asked_.begin(), asked_.end());
    std::string names;
    for (const std::string& name : legal) names += (names.empty() ? "" : ", ") + name;
    throw bad_data("'" + file_ + "': " + where_ + " has the unknown key " + key,
                   "its keys are " + names,
                   best.empty() ? kFix : "write " + best + ", if that is what it means");
  }
}

}  // namespace tessera
