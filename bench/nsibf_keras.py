"""An epoch of NSIBF's network in Keras, for comparison with ours: CPU seconds.

14,400 windows of the SWaT configuration and 3,600 held out, one thread. Needs
TensorFlow, which is no part of this project: run it in an environment of its own, in
turns with `python bench/nsibf.py --epoch`.

    python bench/nsibf_keras.py
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers

SENSORS, INPUTS, WINDOW, ROWS, STATE, PENALTY = 25, 72, 12, 36, 1, 0.020404
WINDOWS, HELD_OUT, BATCH, EPOCHS = 18_000, 0.2, 2_048, 4
MEASURED, HIDDEN = SENSORS * WINDOW, 151


class Penalty(layers.Layer):
    """Adds the squares of a state to the loss."""

    def call(self, state):
        n = tf.cast(tf.shape(state)[0], tf.float32)
        self.add_loss(PENALTY * tf.reduce_sum(state**2) / n)
        return state


class Clock(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        self.began = time.process_time()

    def on_epoch_end(self, epoch, logs=None):
        print(f"epoch {epoch + 1}: {time.process_time() - self.began:.2f} CPU s")


def dense(widths, activation=None):
    hidden = [layers.Dense(width, activation="relu") for width in widths[:-1]]
    return keras.Sequential([*hidden, layers.Dense(widths[-1], activation=activation)])


def network():
    x, u = layers.Input((MEASURED,)), layers.Input((ROWS, INPUTS))
    code = layers.LSTM(92)(layers.LSTM(92, return_sequences=True)(u))
    g, h = dense([HIDDEN, STATE], "tanh"), dense([HIDDEN, MEASURED])
    f = dense([120, 120, 120, STATE], "tanh")
    now = Penalty()(g(x))
    following = Penalty()(f(layers.Concatenate()([now, code])))
    smooth = layers.Subtract()([now, following])
    made = keras.Model([x, u], [h(now), h(following), smooth])
    made.compile("adam", ["mse"] * 3, loss_weights=[0.45, 0.45, 0.1])
    return made


def main() -> None:
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    rng = np.random.default_rng(0)
    x, y = rng.random((2, WINDOWS, MEASURED), dtype=np.float32)
    u = rng.random((WINDOWS, ROWS, INPUTS), dtype=np.float32)
    network().fit(
        [x, u],
        [x, y, np.zeros((WINDOWS, STATE), np.float32)],
        batch_size=BATCH,
        epochs=EPOCHS,
        validation_split=HELD_OUT,
        verbose=0,
        callbacks=[Clock()],
    )


if __name__ == "__main__":
    main()
