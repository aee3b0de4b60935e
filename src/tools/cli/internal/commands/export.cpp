#include "tools/cli/internal/commands/export.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/text/count_text.h"
#include "tools/cli/internal/print/text_table.h"
#include "tools/cli/internal/run/output_files.h"
#include "tools/cli/internal/run/session.h"
#include "training/engine/checkpoints/parameter_export.h"

namespace tessera {
namespace {

TensorLayout layout_named(const std::string& name) {
  for (TensorLayout layout : {TensorLayout::kNative, TensorLayout::kTorch})
    if (name == to_text(layout)) return layout;
  refuse_usage("'" + name + "' is no layout of tensors",
               "linear weights are [in, out] in the layout native and [out, in] in torch",
               "use --layout native or --layout torch");
}

}  // namespace

void ExportCommand::describe(OptionParser& parser) {
  parser.argument("RUN", "A run folder, a folder of checkpoints, or a checkpoint", checkpoint);
  parser.required_text({"-o,--out", "FILE", "The safetensors file to write", {"--to"}}, to);
  parser.text({"--layout", "LAYOUT",
               "Of linear weights: native, [in, out], or torch, [out, in]; default: native"},
              layout);
  add_options(parser, output);
}

ExitCode ExportCommand::run(Processes&) {
  const TensorLayout chosen = layout_named(layout);
  RealFileSystem disk;
  const Checkpoint stored(disk, find_checkpoint(disk, checkpoint));
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
