#include "tools/cli/internal/print/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/count_text.h"
#include "tools/cli/internal/print/plan/notes.h"
#include "tools/cli/internal/print/progress.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/session.h"

namespace tessera {
namespace {

Document difference_document(const Difference& difference) {
  Document document;
  document["step"] = difference.step + 1;
  document["op"] = difference.op;
  document["value"] = difference.value;
  document["placement"] = difference.placement;
  document["index"] = difference.index;
  document["distributed"] = difference.distributed;
  document["serial"] = difference.serial;
  document["tolerance"] = difference.tolerance;
  return document;
}

std::string losses_table(const VerifyReport& report) {
  TextTable table({"step", "loss of the plan", "loss of serial", "difference", "tolerance"},
                  "rrrrr");
  const int64_t steps = std::min(report.losses.size(), report.serial_losses.size());
  for (int64_t i = 0; i < steps; ++i) {
    if (!is_worth_a_line(i + 1, steps)) continue;
    const size_t at = i;
    const std::string tolerance =
        at < report.loss_tolerances.size() ? fmt::format("{:.1e}", report.loss_tolerances[at]) : "";
    table.add({std::to_string(i + 1), fmt::format("{:.6f}", report.losses[at]),
               fmt::format("{:.6f}", report.serial_losses[at]),
               fmt::format("{:.1e}", std::abs(report.losses[at] - report.serial_losses[at])),
               tolerance});
  }
  return table.text();
}

std::string difference_text(const Difference& difference) {
  std::string text =
      fmt::format("first to differ: op '{}'\n  value        {}\n", difference.op, difference.value);
  if (!difference.placement.empty())
    text += fmt::format("  placement    {}\n", difference.placement);
  return text + fmt::format(
                    "  step         {}\n  index        {} of the whole tensor\n  distributed  "
                    "{:.9g}\n  serial       {:.9g}\n  difference  "
                    " {:.3g}\n  tolerance    {:.3g}\n",
                    difference.step + 1, difference.index, difference.distributed,
                    difference.serial, std::abs(difference.distributed - difference.serial),
                    difference.tolerance);
}

}  // namespace

Document report_document(const VerifyReport& report) {
  Document document;
  document["ok"] = report.ok;
  document["max_error"] = report.max_error;
  document["first_difference"] =
      report.first_difference ? difference_document(*report.first_difference) : Document();
  document["losses"] = to_document(report.losses);
  document["serial_losses"] = to_document(report.serial_losses);
  document["loss_tolerances"] = to_document(report.loss_tolerances);
  document["tensors"] = report.tensors;
  document["exact_tensors"] = report.exact_tensors;
  document["removed_values"] = report.removed_values;
  document["notes"] = to_document(report.notes);
  return document;
}

std::string report_text(const VerifyReport& report) {
  std::string text = losses_table(report) + "\n";
  text += fmt::format("tensors  {} compared in a step, {} of them bit for bit\n",
                      grouped(report.tensors), grouped(report.exact_tensors));
  if (report.removed_values > 0)
    text += fmt::format("removed  {} by passes over the serial graph\n",
                        counted(report.removed_values, "value"));
  text += fmt::format("error    at most {:.3g} of its tolerance\n", report.max_error);
  text += std::string("verdict  ") +
          (report.ok ? "ok: the plan computes what the serial program computes"
                     : "FAILED: the plan does not compute what the serial program computes") +
          "\n";
  if (report.first_difference) text += "\n" + difference_text(*report.first_difference);
  return text;
}

std::string dump_text(const DumpedReport& report) {
  const std::optional<ForeignDifference>& first = report.step.first_difference;
  if (!first)
    return fmt::format(
        "ok: {} of the step are within their tolerances (largest error: {:.2g} of "
        "its tolerance)\n",
        counted(report.step.tensors, "tensor"), report.step.max_error);
  const std::string rank = report.rank < 0 ? "" : fmt::format(" on rank {}", report.rank);
  return fmt::format(
      "failed: {}{} is not that of the serial program: element {} is {:.9g}, the "
      "reference has {:.9g}, the tolerance is {:.3g}\n",
      first->what, rank, first->index, first->theirs, first->reference, first->tolerance);
}

Document dump_document(const DumpedReport& report) {
  Document document;
  const std::optional<ForeignDifference>& first = report.step.first_difference;
  document["ok"] = !first;
  document["tensors"] = report.step.tensors;
  document["max_error"] = report.step.max_error;
  document["first_difference"] = Document();
  if (!first) return document;
  Document& difference = document["first_difference"];
  difference["what"] = first->what;
  difference["variable"] = first->variable;
  difference["rank"] = report.rank < 0 ? Document() : Document(report.rank);
  difference["index"] = first->index;
  difference["theirs"] = first->theirs;
  difference["reference"] = first->reference;
  difference["tolerance"] = first->tolerance;
  return document;
}

}  // namespace tessera
