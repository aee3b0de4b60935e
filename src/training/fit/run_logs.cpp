#include "training/fit/run_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files/open_file.h"
#include "ir/models/graphs.h"
#include "training/fit/internal/process_info.h"

namespace tessera {
namespace {

/// A number of f32 as the shortest decimal that is it: 1e-4, not 9.999999747378752e-05.
double shortest(double number) {
  return std::stod(fmt::format("{}", static_cast<float>(number)));
}

double per_second(double amount, Seconds time) {
  return time.value() > 0 ? amount / time.value() : 0;
}

}  // namespace

// ---- metrics ----

void MetricsLog::on_train_begin(const TrainingState& state, TrainingControl&) {
  const Graph& graph = state.engine.graph();
  flops_of_unit_ =
      model_flops(graph) / static_cast<double>(units_per_batch(state.engine.network(), graph));
}

void MetricsLog::on_step_end(const TrainingState& state, TrainingControl&) {
  const StepResult& result = *state.result;
  const double ranks = state.engine.plan().rank_count();
  const auto tokens = static_cast<double>(result.tokens);
  const double speed = per_second(tokens, result.time);
  Document line;
  const std::string units = state.engine.batches().data().unit + "s";
  line["kind"] = "step";
  line["step"] = state.step;
  line["loss"] = result.loss;
  line["learning_rate"] = shortest(result.learning_rate);
  line["grad_norm"] = Document();  // of a skipped step, whose gradient overflowed
  if (std::isfinite(result.grad_norm)) line["grad_norm"] = result.grad_norm;
  line["skipped"] = skipped_ += result.skipped ? 1 : 0;
  if (result.loss_scale > 0) line["loss_scale"] = result.loss_scale;
  line["step_time_ms"] = result.time.value() * 1e3;
  line[units] = result.tokens;
  line[units + "_per_s"] = speed;
  line[units + "_per_s_per_device"] = speed / ranks;
  line["tflops_per_device"] = flops_of_unit_ * speed / ranks / 1e12;
  add_utilization(result, line);
  line["peak_bytes"] = state.engine.runtime().peak_bytes().value();
  line["data_wait_ms"] = result.data_wait.value() * 1e3;
  line["comm_exposed_ms"] = Document();
  line["bubble_ms"] = Document();
  if (result.ranks) {
    const RankTime& mean = *result.ranks;
    line["comm_exposed_ms"] = mean.exposed.value() * 1e3;
    // Of two steps in flight, the second one may begin inside of the first.
    const double idle = (result.time - mean.kernels - mean.exposed).value();
    line["bubble_ms"] = std::max(0.0, idle) * 1e3;
  }
  lines_.append(line);
}

void MetricsLog::add_utilization(const StepResult& result, Document& line) const {
  line["mfu"] = Document();
  line["hfu"] = Document();
  if (!peak_ || peak_->flops_per_second <= 0) return;
  const double model = flops_of_unit_ * static_cast<double>(result.tokens);
  line["mfu"] = per_second(model, result.time) / peak_->flops_per_second;
  line["hfu"] = per_second(peak_->executed.value(), result.time) / peak_->flops_per_second;
}

void MetricsLog::on_evaluate(const TrainingState& state, TrainingControl&) {
  const std::string units = state.engine.batches().data().unit + "s";
  Document line;
  line["kind"] = "evaluation";
  line["step"] = state.step;
  line["val_" + units] = state.evaluation->tokens;
  for (const MetricValue& number : numbers_of(*state.evaluation, state.engine.network()))
    line["val_" + number.name] = number.value ? Document(*number.value) : Document();
  lines_.append(line);
}

// ---- ranks ----

RankLogs::RankLogs(const std::filesystem::path& folder, const Engine& engine, int64_t every)
    : every_(every) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw cannot_write_error(folder, error.message());
  for (Rank rank : engine.runtime().local_ranks()) {
    files_.push_back(folder / fmt::format("rank-{:05}.jsonl", rank));
    JsonLines(files_.back());  // it can be written
  }
}

void RankLogs::append(const TrainingState& state, const std::string& event, const Document& value) {
  const double now = seconds_since_1970();
  Document line;
  line["rank"] = 0;
  line["local_rank"] = 0;
  line["host_name"] = host_name();
  line["pid"] = process_id();
  line["source"] = "tessera";
  line["step"] = state.step;
  line["relative_step"] = state.step - first_step_;
  line["time_us"] = static_cast<int64_t>(now * 1e6);
  line["log_type_name"] = event;
  line["value"] = value;
  line["delta_ms"] = lines_ == 0 ? 0.0 : (now - last_time_) * 1e3;
  line["seq_id"] = lines_++;
  last_time_ = now;
  const std::vector<Rank>& ranks = state.engine.runtime().local_ranks();
  for (size_t i = 0; i < files_.size(); ++i) {
    line["rank"] = static_cast<int64_t>(ranks[i]);
    line["local_rank"] = static_cast<int64_t>(ranks[i]);
    JsonLines(files_[i]).append(line);
  }
}

void RankLogs::on_train_begin(const TrainingState& state, TrainingControl&) {
  first_step_ = state.step;
  append(state, "start", Document());
  Document program;
  program["tasks"] = static_cast<int64_t>(state.engine.compiled().tasks.tasks.size());
  program["peak_bytes"] = state.engine.runtime().peak_bytes().value();
  append(state, "program_loaded", program);
}

void RankLogs::on_step_end(const TrainingState& state, TrainingControl&) {
  if (state.step % every_ != 0 && state.step != first_step_ + 1 && state.step != state.last_step)
    return;
  append(state, "step_end", state.result->loss);
}

void RankLogs::on_evaluate(const TrainingState& state, TrainingControl&) {
  append(state, "evaluate", state.evaluation->loss);
}

void RankLogs::on_save(const TrainingState& state, TrainingControl&) {
  append(state, "save", Document());
}

void RankLogs::on_train_end(const TrainingState& state, TrainingControl&) {
  if (!state.error.empty()) append(state, "failure", state.error);
  append(state, "end", state.stop_reason);
}

// ---- events ----

void EventLog::on_step_end(const TrainingState& state, TrainingControl&) {
  const StepResult& result = *state.result;
  const std::string rate_tag = "perf/" + state.engine.batches().data().unit + "s_per_s";
  std::vector<EventScalar> scalars{
      {"train/loss", result.loss},
      {"train/learning_rate", result.learning_rate},
      {"perf/step_time_ms", result.time.value() * 1e3},
      {"train/grad_norm", result.grad_norm},
      {rate_tag, per_second(static_cast<double>(result.tokens), result.time)},
      {"mem/peak_bytes", static_cast<double>(state.engine.runtime().peak_bytes().value())}};
  file_.add(state.step, scalars);
}

void EventLog::on_evaluate(const TrainingState& state, TrainingControl&) {
  std::vector<std::string> tags;
  std::vector<EventScalar> scalars;
  const auto numbers = numbers_of(*state.evaluation, state.engine.network());
  for (const MetricValue& number : numbers) tags.push_back("val/" + number.name);
  for (size_t i = 0; i < tags.size(); ++i)
    if (numbers[i].value) scalars.push_back({tags[i], *numbers[i].value});
  file_.add(state.step, scalars);
}

}  // namespace tessera
