// The notes of a compiled program (compiler/lower/redundant_work.h): placements that could not be
// kept, and waste.
#pragma once

#include <string>
#include <vector>

#include "base/files/document.h"
#include "tools/cli/internal/print/repeated_rows.h"
#include "training/engine/engine.h"

namespace tessera {

/// A list of {kind, op, text}.
Document to_document(const std::vector<ShardingNote>& notes);
/// A table of all notes, with those of repeated layers joined; "" when there are none.
std::string notes_table(const std::vector<ShardingNote>& notes, const RepeatedRows& repeated);
/// The notes of a program under a plan that the user wrote; none for a plan that was found, whose
/// placements the user did not ask for.
std::vector<ShardingNote> notes_for_user(const Engine& engine);

/// All notes of waste, and the first of each other kind, with the number of the others; "" when
/// there are none.
std::string notes_summary(const std::vector<ShardingNote>& notes);

}  // namespace tessera
