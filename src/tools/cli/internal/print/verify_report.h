// The output of `tessera verify`: a report as text and as JSON.
#pragma once

#include <string>

#include "base/files/document.h"
#include "frontend/models/dumped_step.h"
#include "training/verify/verify.h"

namespace tessera {

/// A table of losses, the compared tensors, the verdict and, when it failed, the first difference.
std::string report_text(const VerifyReport& report);
/// {ok, max_error, first_difference, losses, serial_losses, ...}. Steps are counted from 1, as
/// readers count them.
Document report_document(const VerifyReport& report);

/// Of a step of another program: the verdict, and the first tensor that is too far from the
/// reference.
std::string dump_text(const DumpedReport& report);
/// {ok, tensors, max_error, first_difference: {what, variable, rank, index, theirs, reference,
/// tolerance}}
Document dump_document(const DumpedReport& report);

}  // namespace tessera
