#include "frontend/models/model_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/files/document.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "frontend/models/internal/hugging_face.h"

namespace tessera {
namespace {

/// A reader of the files of one system.
struct ModelReader {
  bool (*reads)(const Document& document);
  ReadModel (*read)(const Document& document, const std::string& origin);
};
constexpr ModelReader kReaders[] = {{is_hugging_face, read_hugging_face}};

ModelFile read_json_model(const std::filesystem::path& file, const ModelFileOptions& options) {
  const std::string origin = file.string();
  const Document document = parse_json(read_file(file), origin);
  for (const ModelReader& reader : kReaders) {
    if (!reader.reads(document)) continue;
    ReadModel read = reader.read(document, origin);
    ModelFile model{
        read_config_settings(std::move(read.settings), origin, options.sets, options.ranks),
        std::move(read.notes)};
    const RunConfig& run = model.config.run;
    model.notes.insert(
        model.notes.begin(),
        fmt::format("a step of {} rows of {} tokens in {} is assumed where --batch and --set do "
                    "not say otherwise",
                    run.train.batch, run.model.context, to_text(run.train.precision.dtype)));
    return model;
  }
  throw UserError(origin + " describes no model",
                  "a config.json of Hugging Face has a model_type, and this file has none",
                  "give the config.json of a model, or a configuration in TOML",
                  ExitCode::kBadData);
}

ModelFile read_graph(const std::filesystem::path& file, const ModelFileOptions& options) {
  Document settings;
  settings["model"]["kind"] = "graph";
  settings["model"]["file"] = file.string();
  return {read_config_settings(std::move(settings), file.string(), options.sets, options.ranks)};
}

/// Has it only what names of models have?
bool is_name(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) || c == '-' || c == '.' || c == '_';
  });
}

}  // namespace

bool has_hugging_face_config(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "config.json";
  if (!path_exists(file)) return false;
  try {
    return is_hugging_face(parse_json(read_file(file), file.string()));
  } catch (const UserError&) {
    return false;
  }
}

std::vector<std::string> known_models(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".json") names.push_back(entry->path().stem().string());
  std::ranges::sort(names);
  return names;
}

ModelFile read_model_file(const std::string& file_or_name, const ModelFileOptions& options) {
  const std::filesystem::path file(file_or_name);
  std::error_code error;
  if (std::filesystem::is_directory(file, error) && path_exists(file / "config.json"))
    return read_json_model(file / "config.json", options);
  if (path_exists(file)) {
    if (file.extension() == ".json") return read_json_model(file, options);
    return file.extension() == kGraphExtension
               ? read_graph(file, options)
               : ModelFile{read_config_file(file, options.sets, options.ranks)};
  }
  if (is_name(file_or_name) && file.extension() != ".toml" && file.extension() != ".json") {
    const std::vector<std::string> names = known_models(options.known);
    if (std::ranges::count(names, file_or_name) > 0)
      return read_json_model(options.known / (file_or_name + ".json"), options);
    const std::string close = nearest(file_or_name, names);
    if (!names.empty())
      throw UserError(
          "there is no file '" + file_or_name + "', and no known model of this name",
          "known models are " + join(names, ", "),
          close.empty() ? "give a file, or one of them" : "did you mean '" + close + "'?",
          ExitCode::kMissingInput);
  }
  return {read_config_file(file, options.sets, options.ranks)};
}

}  // namespace tessera
