"""The commands for a folder of one's own images: fit, predict, evaluate, export.

folder    which files, of which class, in which order; how a file is known again
journal   what `fit` keeps beside a model: the files it learned, and how well it did before it learned them
fit       the loop: predict a chunk, learn it, note it, save
places    where results may be written
images    a saved model that takes images, and images as it takes them
predict   labels for files
evaluate  a folder per class counted: accuracy, per class, confusion
page      the confusion matrix as a picture, and all of it as one HTML page
export    the model as one ONNX or PyTorch file that needs no mnemon
"""
