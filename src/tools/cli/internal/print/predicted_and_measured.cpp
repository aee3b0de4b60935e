#include "tools/cli/internal/print/predicted_and_measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "simulator/step/step_text.h"

namespace tessera {
namespace {

/// (predicted - measured) / measured; 0 without a measurement.
double error_of(double predicted, double measured) {
  return measured > 0 ? (predicted - measured) / measured : 0;
}

/// ", 8.4% less than the measured 13.44 ms"; ", as measured" below 0.05%.
std::string error_text(double error, const std::string& measured) {
  if (std::abs(error) < 0.0005) return ", as measured";
  return fmt::format(", {:.1f}% {} than the measured {}", 100 * std::abs(error),
                     error < 0 ? "less" : "more", measured);
}

}  // namespace

std::string comparison_text(const PredictedRun& predicted, const MeasuredRun& measured) {
  const Seconds step = predicted.prediction.step;
  const Bytes peak = predicted.prediction.peak_bytes();
  std::string text =
      fmt::format("predicted        {} a step on {}", step_text(step), predicted.cluster_name);
  if (measured.step.value() > 0)
    text += error_text(error_of(step.value(), measured.step.value()), step_text(measured.step));
  return text + "\n                 peak memory " + to_text(peak) +
         error_text(error_of(static_cast<double>(peak.value()),
                             static_cast<double>(measured.peak.value())),
                    to_text(measured.peak)) +
         "\n";
}

Document comparison_document(const PredictedRun& predicted, const MeasuredRun& measured) {
  const StepPrediction& prediction = predicted.prediction;
  Document document;
  document["cluster"] = predicted.cluster_name;
  document["step_ms"] = 1e3 * prediction.step.value();
  const bool is_measured = measured.step.value() > 0;
  document["measured_step_ms"] = is_measured ? Document(1e3 * measured.step.value()) : Document();
  document["step_error"] =
      is_measured ? Document(error_of(prediction.step.value(), measured.step.value())) : Document();
  document["peak_bytes"] = prediction.peak_bytes().value();
  document["measured_peak_bytes"] = measured.peak.value();
  document["mfu"] = predicted.mfu();
  document["hfu"] = prediction.utilization();
  document["bubble"] = prediction.bubble();
  document["exposed_comm_ms"] = 1e3 * prediction.exposed().value();
  return document;
}

DevicePeak peak_of(const PredictedRun& predicted) {
  return {predicted.prediction.peak_flops_per_second, predicted.prediction.executed};
}

}  // namespace tessera
