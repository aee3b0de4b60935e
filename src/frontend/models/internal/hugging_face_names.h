// The names and layouts of parameters in the files of Hugging Face's transformers.
#pragma once

#include <string_view>

#include "ir/models/model.h"
#include "training/engine/checkpoints/foreign_parameters.h"

namespace tessera {

/// Of a model_type that read_hugging_face reads, for the model that it makes of it.
///   source  the modules of transformers 5.24
ForeignNames hugging_face_names(std::string_view model_type, const ModelConfig& model);

}  // namespace tessera
