#include "tools/cli/internal/commands/export.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/files/file.h"
#include "base/text/count_text.h"
#include "frontend/models/parameters.h"
#include "ir/models/family.h"
#include "ir/models/graphs.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/named_model.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/session.h"
#include "training/engine/checkpoints/parameter_export.h"
#include "training/engine/run_data.h"

namespace tessera {
namespace {

TensorLayout layout_named(const std::string& name) {
  for (TensorLayout layout : {TensorLayout::kNative, TensorLayout::kTorch})
    if (name == to_text(layout)) return layout;
  refuse_usage("'" + name + "' is no layout of tensors",
               "linear weights are [in, out] in the layout native and [out, in] in torch",
               "use --layout native or --layout torch");
}

/// The run of a folder with checkpoints, else the model that a command line names.
RunConfig config_of(const std::string& source, const std::vector<std::string>& sets) {
  std::error_code unknown;
  RealFileSystem disk;
  const std::filesystem::path folder(source);
  if (std::filesystem::is_directory(folder, unknown) && !has_hugging_face_config(folder))
    return stored_run(Checkpoint(disk, find_checkpoint(disk, folder)), sets).config;
  RunConfig config = named_model(source, sets).run;
  set_sizes(config.model, config.data);
  return config;
}

}  // namespace

void ExportCommand::describe(OptionParser& parser) {
  parser.argument("RUN",
                  "A run folder, a folder of checkpoints, or a checkpoint; for a graph file also a "
                  "configuration or another model, as `plan` takes it",
                  source);
  parser.required_text(
      {"-o,--out",
       "FILE",
       "The safetensors file to write, or NAME.graph for the model as a graph file",
       {"--to"}},
      to);
  parser.text({"--like", "MODEL",
               "Write a folder of Hugging Face, with the config.json of this folder or file, which "
               "describes the model of the run"},
              like);
  add_options(parser, overrides);
  parser.text({"--layout", "LAYOUT",
               "Of linear weights: native, [in, out], or torch, [out, in]; default: native"},
              layout);
  add_options(parser, output);
}

ExitCode ExportCommand::export_graph() const {
  const RunConfig config = config_of(source, overrides.sets);
  check_output(to);
  write_file(to, graph_file_text(config.model));
  const Graph graph = forward_graph(network_of(config.model), ForwardPurpose::kTraining, 1, 0);
  Document document;
  document["file"] = to;
  document["ops"] = std::ssize(graph.ops());
  document["parameters"] = parameter_count(graph);
  print_result(output, document,
               fmt::format("{}: {}, {}\n", to, counted(std::ssize(graph.ops()), "op"),
                           counted(parameter_count(graph), "parameter")));
  return ExitCode::kDone;
}

ExitCode ExportCommand::export_like() const {
  RealFileSystem disk;
  const Checkpoint stored(disk, find_checkpoint(disk, source));
  export_as_hugging_face(disk, stored, stored_run(stored), like, to);
  Document document;
  document["checkpoint"] = stored.folder().string();
  document["step"] = stored.step();
  document["folder"] = to;
  print_result(output, document,
               fmt::format("{}: config.json and parameters of step {}\n", to, stored.step()));
  return ExitCode::kDone;
}

ExitCode ExportCommand::run(Processes&) {
  if (!like.empty()) return export_like();
  if (std::filesystem::path(to).extension() == kGraphExtension) return export_graph();
  const TensorLayout chosen = layout_named(layout);
  RealFileSystem disk;
  const Checkpoint stored(disk, find_checkpoint(disk, source));
  const std::vector<ExportedTensor> tensors = exported_tensors(stored_run(stored), chosen);
  check_output(to);
  export_parameters(disk, stored, tensors, chosen, to);
  Bytes bytes{0};
  TextTable table({"tensor", "type"}, "ll");
  Document document;
  document["checkpoint"] = stored.folder().string();
  document["step"] = stored.step();
  document["file"] = to;
  document["layout"] = std::string(to_text(chosen));
  document["tensors"] = Document::Table{};
  for (const ExportedTensor& tensor : tensors) {
    bytes += byte_size(tensor.type);
    const std::string type = to_text(tensor.type);
    table.add({tensor.name, type + (tensor.is_transposed ? "  transposed" : "")});
    document["tensors"][tensor.name] = type;
  }
  document["bytes"] = bytes.value();
  print_result(output, document,
               table.text() + fmt::format("\n{}: {} of step {}, {}\n", to,
                                          counted(std::ssize(tensors), "tensor"), stored.step(),
                                          to_text(bytes)));
  return ExitCode::kDone;
}

}  // namespace tessera
