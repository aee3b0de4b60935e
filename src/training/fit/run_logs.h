// Logs that a run writes: callbacks for fit().
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/files/document.h"
#include "base/files/file.h"
#include "training/fit/callbacks.h"
#include "training/fit/internal/event_file.h"

namespace tessera {

/// A file of JSON objects, one per line, as AppendedFile.
class JsonLines {
 public:
  explicit JsonLines(std::filesystem::path path) : file_(std::move(path)) {}
  void append(const Document& line) { file_.append(to_json(line) + "\n"); }

 private:
  AppendedFile file_;
};

/// What the devices of a run could do, of a description of them.
struct DevicePeak {
  double flops_per_second = 0;  // of all ranks together, for products
  Flops executed{0};            // by all ranks in a step, with what is computed twice
};

/// metrics.jsonl: one line per step and one line per evaluation.
///
///   step        kind ("step"), step, loss, learning_rate, grad_norm, skipped (steps so far that
///               changed nothing because a gradient in f16 overflowed), step_time_ms, tokens,
///               tokens_per_s, tokens_per_s_per_device, tflops_per_device, mfu, hfu, peak_bytes,
///               data_wait_ms, comm_exposed_ms, bubble_ms; with f16 loss_scale. Of images it has
///               images, images_per_s and images_per_s_per_device in place of tokens; where each
///               pixel has a label, pixels
///   evaluation  kind ("evaluation"), step, val_tokens (evaluated; val_images, ...), val_loss, and
///   val_ with the name of each metric of the network: val_accuracy.
///               When the loss is an entropy of tokens also val_perplexity, val_bits_per_byte
///   null        what is not known: grad_norm of a skipped step; mfu and hfu without a DevicePeak;
///   comm_exposed_ms and bubble_ms
///               when a rank computes on an accelerator, whose streams are not measured
///   ranks       comm_exposed_ms (exchanges while no kernel runs) and bubble_ms (the rest of the
///               step without kernels) are means over the ranks of the process that writes
///   units       learning_rate is the rate that the optimizer used; tflops_per_device counts
///   forward
///               and backward of the serial program, nothing twice. Numbers that JSON lacks are
///               texts: "NaN", "Infinity"
class MetricsLog : public Callback {
 public:
  explicit MetricsLog(std::filesystem::path path, std::optional<DevicePeak> peak = std::nullopt)
      : lines_(std::move(path)), peak_(peak) {}
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_train_begin(const TrainingState& state, TrainingControl&) override;
  void on_step_end(const TrainingState& state, TrainingControl&) override;
  void on_evaluate(const TrainingState& state, TrainingControl&) override;

 private:
  void add_utilization(const StepResult& result, Document& line) const;

  JsonLines lines_;
  std::optional<DevicePeak> peak_;
  double flops_of_unit_ = 0;
  int64_t skipped_ = 0;
};

/// One file per rank in `folder`, such as rank-00003.jsonl: start, program_loaded, step_end (every
/// `every` steps, the first and the last), evaluate, save, failure, end.
///
///   fields  rank, local_rank, host_name, pid, source, step, relative_step (from the start of this
///           process), time_us (since 1970), log_type_name, value, delta_ms (since the line
///           before), seq_id
///   limit   lines of ranks that are threads of one process differ only in rank and memory; each
///           process writes those of its own ranks
class RankLogs : public Callback {
 public:
  RankLogs(const std::filesystem::path& folder, const Engine& engine, int64_t every);
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_train_begin(const TrainingState& state, TrainingControl&) override;
  void on_step_end(const TrainingState& state, TrainingControl&) override;
  void on_evaluate(const TrainingState& state, TrainingControl&) override;
  void on_save(const TrainingState& state, TrainingControl&) override;
  void on_train_end(const TrainingState& state, TrainingControl&) override;

 private:
  void append(const TrainingState& state, const std::string& event, const Document& value);

  /// By index of the rank in this process. They are opened for each line: a process of hundreds of
  /// ranks may not have so many files open.
  std::vector<std::filesystem::path> files_;
  int64_t every_;
  int64_t first_step_ = 0;
  int64_t lines_ = 0;
  double last_time_ = 0;
};

/// A TensorBoard file in `folder`. Each step adds train/loss, train/learning_rate, train/grad_norm
/// (with clipping), perf/step_time_ms, perf/tokens_per_s (or images, ...) and mem/peak_bytes. Each
/// evaluation adds the numbers that MetricsLog has: val/loss, val/accuracy and so on.
class EventLog : public Callback {
 public:
  explicit EventLog(const std::filesystem::path& folder) : file_(folder) {}
  CallbackNeeds needs(int64_t) const override { return CallbackNeeds::kMetricsOnly; }
  void on_step_end(const TrainingState& state, TrainingControl&) override;
  void on_evaluate(const TrainingState& state, TrainingControl&) override;

 private:
  EventFile file_;
};

}  // namespace tessera
