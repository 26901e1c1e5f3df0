import streamlit as st

st.title("Squares")
number = st.number_input("Number", value=3, step=1)
if st.button("Square"):
    st.write(f"The square is {number * number}")
