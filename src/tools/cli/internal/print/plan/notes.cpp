#include "tools/cli/internal/print/plan/notes.h"

#include <fmt/format.h>

#include <map>

#include "base/text/count_text.h"
#include "compiler/lower/redundant_work.h"
#include "tools/cli/internal/print/text_table.h"

namespace tessera {

Document to_document(const std::vector<ShardingNote>& notes) {
  Document::List list;
  for (const ShardingNote& note : notes)
    list.push_back(Document::Table{
        {"kind", std::string(to_text(note.kind))}, {"op", note.op}, {"text", note.text}});
  return list;
}

std::string notes_table(const std::vector<ShardingNote>& notes, const RepeatedRows& repeated) {
  if (notes.empty()) return "";
  std::vector<TableRow> rows;
  for (const ShardingNote& note : notes)
    rows.push_back({std::string(to_text(note.kind)), note.op, note.text});
  TextTable table({"note", "op", "text"}, "lll");
  for (TableRow& row : repeated.joined(rows, 1)) table.add(std::move(row));
  return table.text();
}

std::vector<ShardingNote> notes_for_user(const Engine& engine) {
  if (engine.plan().is_found) return {};
  return notes_of(engine.compiled());
}

std::string notes_summary(const std::vector<ShardingNote>& notes) {
  std::map<ShardingNote::Kind, std::vector<const ShardingNote*>> by_kind;
  for (const ShardingNote& note : notes) by_kind[note.kind].push_back(&note);
  std::string text;
  size_t left_out = 0;
  for (const auto& [kind, list] : by_kind) {
    const size_t shown = kind == ShardingNote::Kind::kWaste ? list.size() : 1;
    for (size_t i = 0; i < shown; ++i)
      text += fmt::format("note: {}: {}\n", to_text(kind), list[i]->text);
    left_out += list.size() - shown;
  }
  if (left_out > 0)
    text += fmt::format("note: {} like these; `tessera explain --full` prints all\n",
                        counted(static_cast<int64_t>(left_out), "more note"));
  return text;
}

}  // namespace tessera
