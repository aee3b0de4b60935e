#include "sharding/explicit/shardings.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/files/config_table.h"

namespace tessera {
namespace {

constexpr std::array<std::string_view, 7> kSections = {
    kTrainSection, "evaluate", "predict", "decode", "accumulate", "reduce", "apply"};

[[noreturn]] void refuse(const std::string& what, const Document& found, const std::string& why,
                         const std::string& fix) {
  throw UserError(what + " is " + kind_of(found), why, fix, ExitCode::kBadConfig);
}

/// The strings of a list. what  of which it is
std::vector<std::string> read_names(const Document& names, const std::string& what) {
  std::vector<std::string> read;
  if (!names.is_list()) refuse(what, names, "names are a list", "write them in [ ]");
  for (const Document& name : names.as_list()) {
    if (!name.is_string())
      refuse("a name of " + what, name, "a name is a string", "write it in quotes");
    read.push_back(name.as_string());
  }
  return read;
}

std::vector<PatternDecision> read_decisions(const Document* given, const std::string& position) {
  std::vector<PatternDecision> decisions;
  if (!given) return decisions;
  if (!given->is_table())
    refuse(position, *given, "decisions are a table: each with the names that it is for",
           "write {\"m@dp\": [\"y\"]}");
  for (const auto& [text, names] : given->as_table())
    decisions.push_back({text, read_names(names, position + " '" + text + "'")});
  return decisions;
}

void write_decisions(const std::vector<PatternDecision>& decisions, const char* key,
                     Document& section) {
  if (decisions.empty()) return;
  Document::Table table;
  for (const PatternDecision& decision : decisions)
    table.emplace_back(decision.text, Document::List(decision.names.begin(), decision.names.end()));
  section[key] = std::move(table);
}

}  // namespace

std::span<const std::string_view> section_names() {
  return kSections;
}

const ShardingSection* Shardings::find(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const auto& section) { return section.first == name; });
  return found == sections.end() ? nullptr : &found->second;
}

Shardings parse_shardings(const Document& document, const std::string& origin,
                          std::vector<ReadKey>* read) {
  if (!document.is_table())
    refuse(origin + ": 'shardings'", document, "explicit shardings are a table by program",
           "write {\"train\": {...}}, or let `tessera explain --explicit` write it");
  Shardings shardings;
  ConfigTable table(&document, "shardings", origin, read);
  for (const std::string_view name : kSections) {
    const std::string program(name);
    if (!table.raw(program, {.range = "a program", .listed = "PROGRAM"})) continue;
    ConfigTable keys = table.table(program, "PROGRAM");
    const auto decisions = [&](const std::string& key) {
      return read_decisions(keys.raw(key, {.range = "lists of names"}),
                            origin + ": " + keys.full(key));
    };
    ShardingSection section;
    section.stages = decisions("stages");
    if (const Document* kept = keys.raw("kept", {.type = "list of texts", .fallback = "[]"}))
      section.kept = read_names(*kept, origin + ": " + keys.full("kept"));
    section.ops = decisions("ops");
    section.values = decisions("values");
    section.copies = decisions("copies");
    keys.finish();
    shardings.sections.emplace_back(name, std::move(section));
  }
  table.finish();
  if (!shardings.find(kTrainSection))
    throw UserError(origin + ": 'shardings' has no section 'train'",
                    "the other programs only say in what they differ from the training step",
                    "let `tessera explain --explicit` write it", ExitCode::kBadConfig);
  return shardings;
}

Document to_document(const Shardings& shardings) {
  Document document = Document::Table{};
  for (const auto& [name, section] : shardings.sections) {
    Document written = Document::Table{};
    write_decisions(section.stages, "stages", written);
    if (!section.kept.empty())
      written["kept"] = Document::List(section.kept.begin(), section.kept.end());
    write_decisions(section.ops, "ops", written);
    write_decisions(section.values, "values", written);
    write_decisions(section.copies, "copies", written);
    document[name] = std::move(written);
  }
  return document;
}

}  // namespace tessera
