"""Train the small Keras model that notebook 10 imports, and store it as Keras and ONNX files.

    KERAS_BACKEND=torch python benchmarks/train_keras.py

Needs keras, torch, onnxscript and scikit-learn. Training and test images are those of digits.py.
Writes keras.json and keras.npz, what to_json() and get_weights() return, and keras.onnx, which
Keras exports for one image; all beside minitvm.graph.networks.
"""

from pathlib import Path

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from minitvm.graph import networks

FOLDER = Path(networks.__file__).parent
WHITE, TEST = 16, 360  # the brightest value of a pixel; images for the test
EPOCHS, BATCH, RATE = 40, 64, 3e-3


def normalised(x: keras.KerasTensor, channels: int, strides: int = 1) -> keras.KerasTensor:
    """Return a 3x3 convolution with batch normalisation."""
    x = layers.Conv2D(channels, 3, strides, padding="same", use_bias=False)(x)
    return layers.BatchNormalization()(x)


def model() -> keras.Model:
    """Return a network for images [8, 8, 1], with a shortcut around its last convolution."""
    image = keras.Input((8, 8, 1), name="image")
    x = layers.ReLU()(normalised(image, 8))
    x = layers.ReLU()(normalised(x, 16, strides=2))
    y = layers.ReLU()(layers.Add()([normalised(x, 16), x]))
    y = layers.GlobalAveragePooling2D()(y)
    return keras.Model(image, layers.Dense(10, activation="softmax")(y), name="small")


def main() -> None:
    """Train, test, and store the model."""
    keras.utils.set_random_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 8, 8, 1).astype(np.float32) / WHITE
    sets = train_test_split(images, digits, test_size=TEST, random_state=0, stratify=digits)
    train, test, train_digits, test_digits = sets
    net = model()
    steps = EPOCHS * -(-len(train) // BATCH)
    rate = keras.optimizers.schedules.CosineDecay(RATE, steps)
    net.compile(keras.optimizers.Adam(rate), "sparse_categorical_crossentropy")
    net.fit(train, train_digits, batch_size=BATCH, epochs=EPOCHS, verbose=2)
    right = net.predict(test, verbose=0).argmax(1) == test_digits
    print(f"{right.sum()} of {TEST} test images right, {net.count_params():,} parameters")
    (FOLDER / "keras.json").write_text(net.to_json() + "\n")
    np.savez_compressed(FOLDER / "keras.npz", *net.get_weights())
    net.export(FOLDER / "keras.onnx", format="onnx", verbose=False, input_signature=[
        keras.InputSpec(shape=(1, 8, 8, 1), name="image")
    ])  # fmt: skip
    for file in sorted(FOLDER.glob("keras.*")):
        print(f"{file.name}: {file.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
