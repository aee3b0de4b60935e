#include "tools/cli/internal/print/inspect_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "base/text/text.h"
#include "base/units.h"
#include "tools/cli/internal/print/text_table.h"
#include "training/checkpoint/checkpoint.h"

namespace tessera {

namespace fs = std::filesystem;

namespace {

/// The folder of a run's checkpoints, or the checkpoint that the file `latest` names.
fs::path place_of(const fs::path& path) {
  std::error_code unknown;
  if (path.filename() == "latest" && fs::is_regular_file(path, unknown))
    if (const std::string name(trim(read_own_file(path))); step_of_name(name))
      return path.parent_path() / name;
  return fs::is_directory(path / "checkpoints", unknown) ? path / "checkpoints" : path;
}

std::string bytes_text(const Document& table) {
  return to_text(Bytes(table.find("bytes")->as_int()));
}

std::string shape_text(const Document& shape) {
  std::vector<std::string> extents;
  for (const Document& extent : shape.as_list()) extents.push_back(std::to_string(extent.as_int()));
  return "[" + join(extents, ",") + "]";
}

std::string tensors_text(const Document& tensors) {
  const bool in_parts = !tensors.as_list().empty() && tensors.as_list().front().find("parts");
  TextTable table({"tensor", "dtype", "shape", "bytes", in_parts ? "parts" : ""}, "lllrr");
  for (const Document& tensor : tensors.as_list())
    table.add({tensor.find("name")->as_string(), tensor.find("dtype")->as_string(),
               shape_text(*tensor.find("shape")), grouped(tensor.find("bytes")->as_int()),
               in_parts ? std::to_string(tensor.find("parts")->as_int()) : ""});
  return table.text();
}

std::string checkpoint_text(const std::string& name, const Document& found,
                            const std::string& run) {
  return fmt::format("{} is a checkpoint\n\nstep     {}\nstored   by {}, {} in {}\n{}\n{}", name,
                     found.find("step")->as_int(), counted(found.find("ranks")->as_int(), "rank"),
                     counted(found.find("tensor_count")->as_int(), "tensor"), bytes_text(found),
                     run, tensors_text(*found.find("tensors")));
}

std::string file_text(const std::string& name, const Document& found) {
  return fmt::format("{} is a safetensors file: {} in {}\n\n{}", name,
                     counted(found.find("tensor_count")->as_int(), "tensor"), bytes_text(found),
                     tensors_text(*found.find("tensors")));
}

std::string folder_text(const std::string& name, const Document& found, const std::string& run) {
  TextTable table({"checkpoint", "step", "state"}, "lrl");
  for (const Document& checkpoint : found.find("checkpoints")->as_list()) {
    const std::string& damage = checkpoint.find("damage")->as_string();
    table.add({checkpoint.find("name")->as_string(),
               std::to_string(checkpoint.find("step")->as_int()),
               damage.empty() ? "complete" : damage});
  }
  const Document &latest = *found.find("latest"), &good = *found.find("latest_good");
  const std::string list =
      table.empty() ? "no checkpoint\n"
                    : table.text() + "\nlatest   " +
                          (latest.is_null() ? "none is complete" : latest.as_string()) + "\n" +
                          (to_json(good) == to_json(latest)
                               ? ""
                               : "good     " + good.as_string() +
                                     ": the losses after it were far outside of those before\n");
  return run.empty() ? fmt::format("{} holds checkpoints\n\n{}", name, list)
                     : fmt::format("{} is a run\n\n{}\n{}", name, run, list);
}

}  // namespace

bool is_stored(const fs::path& path) {
  RealFileSystem files;
  const fs::path place = place_of(path);
  if (!files.is_folder(place)) return place.extension() == ".safetensors";
  std::error_code unknown;  // a run without a checkpoint
  if (fs::exists(path / "config.json", unknown) && fs::exists(path / "plan.json", unknown))
    return true;
  const std::vector<std::string> names = files.list(place);
  return step_of_name((place / "").parent_path().filename().string()) ||
         std::any_of(names.begin(), names.end(), [](const std::string& name) {
           return name == "index.json" || step_of_name(name);
         });
}

Document stored_document(const fs::path& path) {
  RealFileSystem files;
  const fs::path place = place_of(path);
  if (place != path && files.list(place).empty() && files.is_folder(place))  // of a run
    return Document::Table{{"kind", "checkpoints"},
                           {"checkpoints", Document::List{}},
                           {"latest", Document()},
                           {"latest_good", Document()}};
  return inspect_stored(files, place);
}

std::string stored_text(const fs::path& path, const Document& summary, const std::string& run) {
  const std::string& kind = summary.find("kind")->as_string();
  const std::string name = place_of(path).string();
  return kind == "checkpoint"    ? checkpoint_text(name, summary, run)
         : kind == "checkpoints" ? folder_text(run.empty() ? name : path.string(), summary, run)
                                 : file_text(name, summary);
}

}  // namespace tessera
