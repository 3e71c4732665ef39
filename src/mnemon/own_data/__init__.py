"""The commands for one's own data: fit, predict, evaluate, export, merge.

readers      tables and arrays as chunks of samples, each with the position from which reading can go on
folder       image files: of which class, in which order; how a file is known again
images       a saved model that takes images, and images as it takes them
sources      what `fit` learns from: a folder, or a table or array
journal      what `fit` keeps beside a model: the files and rows it learned, and how well it did before it learned them
measuring    how often `fit` asks the model before it learns
asking       what a model says about samples of any kind
fit          the loop: ask, learn, note, save
places       where results may be written
predict      labels for image files and rows
scores       predictions as a file
evaluate     labelled samples counted: accuracy, per class, confusion
page         the confusion matrix as a picture, and all of it as one HTML page
export       the model as one ONNX or PyTorch file that needs no mnemon
taking_back  a class forgotten, several models merged: of models on disk
"""
