#include "cli/run_folder.h"

#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "cli/kept_metrics.h"
#include "cli/session.h"

namespace tessera {
namespace {

[[noreturn]] void cannot_write(const std::filesystem::path& path, const std::string& why) {
  throw UserError("cannot write '" + path.string() + "'", why,
                  "check that the folder may be written and that the disk has room, or choose another --out");
}

}  // namespace

RunFolder::RunFolder(const std::filesystem::path& folder, Engine& engine) : engine_(engine), metrics_path_(folder / "metrics.jsonl") {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) cannot_write(folder, error.message());
  write_file(folder / "plan.json", to_json(to_document(engine.plan(), engine.graph()), 2) + "\n");
  write_file(folder / "config.json", to_json(resolved_settings(engine.config()), 2) + "\n");
  keep_metrics_until(metrics_path_, engine.step_count());  // those of the run that is resumed; none of a run that starts anew
  metrics_.open(metrics_path_, std::ios::app);
  if (!metrics_) cannot_write(metrics_path_, "it cannot be opened");
}

void RunFolder::add_step(const StepResult& result) {
  const double seconds = result.time.value();
  const double speed = seconds > 0 ? static_cast<double>(result.tokens) / seconds : 0;
  Document line;
  line["step"] = result.step + 1;
  line["loss"] = result.loss;
  line["lr"] = result.learning_rate;
  line["grad_norm"] = result.grad_norm;
  line["step_time_ms"] = seconds * 1e3;
  line["tokens"] = result.tokens;
  line["tokens_per_s"] = speed;
  line["tokens_per_s_per_device"] = speed / engine_.plan().ranks();
  line["mem_peak_bytes"] = engine_.runtime().peak_bytes().value();
  add_line(line);
}

void RunFolder::add_evaluation(int64_t step, double loss) {
  Document line;
  line["step"] = step;
  line["val_loss"] = loss;
  add_line(line);
}

void RunFolder::add_line(const Document& line) {
  metrics_ << to_json(line) << std::endl;  // a line at once, so that the file can be followed
  if (!metrics_) cannot_write(metrics_path_, "writing failed");
}

}  // namespace tessera
