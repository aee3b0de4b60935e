#include "simulator/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "simulator/report/internal/html.h"
#include "simulator/report/internal/sections.h"
#include "simulator/report/internal/style.h"
#include "simulator/step/step_text.h"

namespace tessera {
namespace {

constexpr size_t kMaxShardings = 200;
/// Of the difference of two steps: smaller parts are not told.
constexpr double kToldShare = 0.02;

std::string percent(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

double units_per_second(const ReportedPlan& plan) {
  const double step = plan.prediction->step.value();
  return step > 0 ? static_cast<double>(plan.units) / step : 0;
}

double mfu(const ReportedPlan& plan) {
  const double possible = plan.prediction->peak_flops_per_second * plan.prediction->step.value();
  return possible > 0 ? plan.model_flops.value() / possible : 0;
}

/// The rank that lacks most memory, or has least of it left.
const RankMemoryNeed& tightest(const StepPrediction& prediction) {
  const auto left = [](const RankMemoryNeed& need) { return need.capacity - need.all(); };
  return *std::ranges::min_element(prediction.memory, {}, left);
}

std::string verdict_of(const StepPrediction& prediction) {
  const RankMemoryNeed& need = tightest(prediction);
  const Bytes left = need.capacity - need.all();
  return prediction.fits() ? fmt::format("fits, {} left", to_text(left))
                           : fmt::format("does not fit, {} missing", to_text(Bytes(0) - left));
}

/// A row for each quantity, a column for each plan.
std::string verdict_table(const std::vector<ReportedPlan>& plans) {
  std::vector<std::string> header{""};
  for (const ReportedPlan& plan : plans) header.push_back(plan.name);
  HtmlTable table(header, "l" + std::string(plans.size(), 'r'));
  const auto add = [&](const std::string& name, const auto& text_of) {
    std::vector<std::string> row{name};
    for (const ReportedPlan& plan : plans) row.push_back(text_of(plan));
    table.add(row);
  };
  using Plan = const ReportedPlan&;
  add("memory", [](Plan plan) { return verdict_of(*plan.prediction); });
  add("step", [](Plan plan) { return step_text(plan.prediction->step); });
  add("speed", [](Plan plan) {
    return grouped(static_cast<int64_t>(units_per_second(plan))) + " " + plan.unit + "s/s";
  });
  add("MFU", [](Plan plan) { return percent(mfu(plan)); });
  add("HFU", [](Plan plan) { return percent(plan.prediction->utilization()); });
  add("waiting, mean of the ranks", [](Plan plan) { return percent(plan.prediction->bubble()); });
  add("exposed communication", [](Plan plan) { return step_text(plan.prediction->exposed()); });
  add("allocated on the fullest rank",
      [](Plan plan) { return to_text(plan.prediction->peak_bytes()); });
  return table.text();
}

std::string difference_text(double predicted, double measured) {
  if (measured <= 0) return "";
  return fmt::format("{:+.1f}%", 100 * (predicted - measured) / measured);
}

/// What the ranks do in a step, in the mean.
struct MeanParts {
  double compute = 0, exposed = 0, idle = 0;
};

MeanParts mean_parts(const StepPrediction& prediction) {
  MeanParts parts;
  const double ranks = std::max<double>(1, static_cast<double>(prediction.ranks.size()));
  for (const RankBreakdown& rank : prediction.ranks) {
    parts.compute += rank.compute.value() / ranks;
    parts.exposed += rank.all_exposed().value() / ranks;
    parts.idle += rank.idle.value() / ranks;
  }
  return parts;
}

/// Why the first of two plans is slower or faster than the second: "A takes 12 ms (5.0%) more than
/// B: its kernels take 10 ms more, its ranks wait 2 ms more for each other."
std::string comparison_sentence(const ReportedPlan& plan, const ReportedPlan& other) {
  const double difference = plan.prediction->step.value() - other.prediction->step.value();
  const MeanParts a = mean_parts(*plan.prediction), b = mean_parts(*other.prediction);
  std::vector<std::pair<double, std::string>> parts = {
      {a.compute - b.compute, "its kernels take {} {}"},
      {a.exposed - b.exposed, "exchanges that no kernel hides take {} {}"},
      {a.idle - b.idle, "its ranks wait {} {} for each other"}};
  std::ranges::stable_sort(parts, std::ranges::greater(),
                           [](const auto& part) { return std::abs(part.first); });
  std::vector<std::string> texts;
  for (const auto& [time, form] : parts)
    if (std::abs(time) >= kToldShare * std::abs(difference) && time != 0)
      texts.push_back(fmt::format(fmt::runtime(form), step_text(Seconds(std::abs(time))),
                                  time > 0 ? "more" : "less"));
  if (difference == 0) return plan.name + " takes as long as " + other.name + ".";
  return fmt::format(
      "{} takes {} ({}) {} than {}{}.", plan.name, step_text(Seconds(std::abs(difference))),
      percent(std::abs(difference) / other.prediction->step.value()),
      difference > 0 ? "more" : "less", other.name, texts.empty() ? "" : ": " + join(texts, ", "));
}

/// A sentence for each plan beside the first one.
std::string comparisons(const std::vector<ReportedPlan>& plans) {
  std::string text;
  for (size_t i = 1; i < plans.size(); ++i)
    text += paragraph(comparison_sentence(plans.front(), plans[i]));
  return text;
}

std::string measured_section(const ReportedPlan& plan) {
  if (!plan.measured) return "";
  HtmlTable table({"", "predicted", "measured", "difference"}, "lrrr");
  const StepPrediction& prediction = *plan.prediction;
  table.add({"step", step_text(prediction.step), step_text(plan.measured->step),
             difference_text(prediction.step.value(), plan.measured->step.value())});
  table.add({"allocated", to_text(prediction.peak_bytes()), to_text(plan.measured->peak),
             difference_text(static_cast<double>(prediction.peak_bytes().value()),
                             static_cast<double>(plan.measured->peak.value()))});
  return section("Predicted and measured", table.text());
}

std::string critical_section(const StepPrediction& prediction) {
  if (prediction.critical.empty()) return "";
  HtmlTable table({"part of the step", "time", "what", "layers", "rank"}, "rrllr");
  for (const CriticalPart& part : prediction.critical) {
    const double share = part.time.value() / prediction.step.value();
    if (share < 0.005) break;
    table.add(
        {percent(share), step_text(part.time), part.what, part.layers, std::to_string(part.rank)});
  }
  return section("Critical path", paragraph(critical_text(prediction.critical)) + table.text());
}

std::string shardings_section(const ReportedPlan& plan) {
  if (plan.shardings.empty()) return "";
  HtmlTable table({"parameter", "placement", "part of a rank", "bytes"}, "lllr");
  const size_t count = std::min(plan.shardings.size(), kMaxShardings);
  for (size_t i = 0; i < count; ++i) {
    const ShardingRow& row = plan.shardings[i];
    table.add({row.name, row.placement, row.local, to_text(row.bytes)});
  }
  return section("Shardings",
                 table.text() + (count < plan.shardings.size()
                                     ? note("... and " +
                                            std::to_string(plan.shardings.size() - count) + " more")
                                     : ""));
}

std::string verdict_of(const ReportedChoice& choice) {
  std::string text = fmt::format("<p class=\"{}\">{}</p>\n", choice.fits ? "good" : "bad",
                                 escaped(choice.verdict));
  for (const std::string& line : choice.notes) text += note(line);
  return text;
}

std::string tables_of(const ReportedChoice& choice) {
  std::string text;
  for (const ReportedTable& each : choice.tables) {
    if (each.rows.empty()) continue;
    HtmlTable table(each.header, each.alignment);
    for (const std::vector<std::string>& row : each.rows) table.add(row);
    text += section(each.title, table.text());
  }
  return text;
}

std::string article(const ReportedPlan& plan) {
  const StepPrediction& prediction = *plan.prediction;
  return "<article>\n<h2>" + escaped(plan.name) + "</h2>\n" + note(plan.summary) +
         fmt::format("<p class=\"{}\">{}</p>\n", prediction.fits() ? "good" : "bad",
                     escaped(verdict_of(prediction))) +
         measured_section(plan) + timeline_section(plan) + critical_section(prediction) +
         memory_section(plan) + communication_section(plan) + cluster_section(plan) +
         shardings_section(plan) + "</article>\n";
}

}  // namespace

std::string report_html(const std::string& title, const std::vector<ReportedPlan>& plans,
                        const std::optional<ReportedChoice>& choice) {
  ensure(!plans.empty(), "a report has a plan");
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\" />\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n<title>" +
      escaped(title) + "</title>\n<style>" + std::string(kStyle) +
      "</style>\n</head>\n<body>\n<h1>" + escaped(title) + "</h1>\n" +
      (choice ? verdict_of(*choice) : "") + note("Predicted by simulating the compiled plan.") +
      "<p class=\"hint\">Wide tables and drawings scroll sideways.</p>\n" + verdict_table(plans) +
      comparisons(plans) + (choice ? tables_of(*choice) : "") + "<div class=\"plans\">\n";
  for (const ReportedPlan& plan : plans) page += article(plan);
  return page + "</div>\n</body>\n</html>\n";
}

}  // namespace tessera
